// Records as JSON Lines, compressed or not, and the checks that they tell of.
#include "reports/history.hpp"
#include "reports/table.hpp"
#include "suites/rerun.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void records(Bytes input) {
  const std::string path = put("x.jsonl", input);
  reads([&] {
    const std::vector<Record> all = read_records(path);
    for (const Record& record : all) {
      const std::string text = to_json(record);
      require(to_json(from_json(text, "again", 1)) == text, "a record that is read as written");
      reads([&] { require(!suite_text(spec_of(record)).empty(), "a check"); });
    }
    error_table(all, {TableStyle::terminal, true, Terminal{}});
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(records)
