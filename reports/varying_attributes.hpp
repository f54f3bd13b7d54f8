// Which attributes tell records of an op apart.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "reports/record.hpp"

namespace opbound {

/// Of some records the attributes to which those of one op are not all set alike: the others would
/// only make a table wide.
class VaryingAttributes {
 public:
  VaryingAttributes() = default;
  explicit VaryingAttributes(std::span<const Record> records) {
    for (const Record& r : records) add(r);
  }

  void add(const Record& r) {
    for (const auto& [name, value] : r.attributes) values_[{r.op, name}].insert(text_of(value));
  }

  /// "log=true", of one of the records.
  std::string of(const Record& r) const {
    Named<AttributeValue> varying;
    for (const auto& attribute : r.attributes)
      if (values_.at({r.op, attribute.first}).size() > 1) varying.push_back(attribute);
    return attributes_text(varying);
  }

 private:
  std::map<std::pair<std::string, std::string>, std::set<std::string>> values_;
};

}  // namespace opbound
