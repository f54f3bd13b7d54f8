#include "tools/command_serve_kernel.hpp"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <utility>

#include "ops/provider.h"
#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_request.hpp"
#include "reports/error.hpp"
#include "suites/input.hpp"

namespace opbound {
namespace {

using wire::Json;

/// What both providers are told of the kernel.
class Told : public Provider {
 public:
  explicit Told(detail::Description about) : about_(std::move(about)) {}

  std::string name() const override { return about_.name; }
  std::string version() const override { return about_.version; }
  std::string device() const override { return about_.device; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return about_.environment;
  }
  bool is_foreign() const override { return true; }
  std::vector<int> variants(const Op& op, Direction direction, const AttributeBytes& attributes,
                            int variant) const override {
    return about_.variants_for(op, direction, attributes, variant);
  }
  Contract contract(const Op&, std::vector<int> variants) const override {
    return {std::move(variants), Contract::Order::any, about_.functions, {}};
  }

 private:
  detail::Description about_;
};

Json json_of(const AttributeValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json json_of(const detail::Request& request, std::uint64_t bytes) {
  Json attributes = Json::array(), tensors = Json::array();
  for (const AttributeSpec& a : request.op->attributes)
    attributes.push_back({{"name", a.name}, {"value", json_of(a.get(request.attributes))}});
  for (const detail::SharedTensor& t : request.all()) {
    const auto sizes = [&](const std::int64_t* first) {
      return std::vector<std::int64_t>(first, first + t.view.rank);
    };
    const bool is_written = request.pass().tensors[static_cast<std::size_t>(t.place)].is_written();
    tensors.push_back({{"name", request.name_of(t)},
                       {"role", is_written ? OPBOUND_OUT : OPBOUND_IN},
                       {"element", static_cast<int>(t.view.element)},
                       {"size", sizes(t.view.size)},
                       {"stride", sizes(t.view.stride)},
                       {"offset", t.offset}});
  }
  return {{"op", request.op->name},
          {"direction", request.is_backward ? "backward" : "forward"},
          {"variant", request.op->variants[static_cast<std::size_t>(request.variant)].name},
          {"compute", static_cast<int>(request.compute)},
          {"attributes", attributes},
          {"tensors", tensors},
          {"bytes", bytes}};
}

class Remote final : public Told {
 public:
  Remote(detail::Description about, int socket, wire::Memory& memory)
      : Told(std::move(about)), socket_(socket), memory_(memory) {}

  void run(const Op& op, const Call& call) const override {
    if (!call.forward.empty()) run_pass(op, call, false, call.forward);
    if (!call.backward.empty()) run_pass(op, call, true, call.backward);
  }

 private:
  void run_pass(const Op& op, const Call& call, bool is_backward,
                const std::vector<TensorView>& views) const {
    detail::Request request = detail::make_request(op, call, is_backward, views);
    const std::span<std::byte> memory = memory_.map(detail::place_workspace(request, 0), true);
    detail::fill_memory(request, views, memory);
    if (!wire::send(socket_, {{"call", json_of(request, memory.size())}})) lost();
    const std::optional<Json> answer = wire::receive(socket_);
    if (!answer) lost();
    const int status = answer->at("status");
    const std::string message = answer->at("message");
    if (status == OPBOUND_UNSUPPORTED) throw Unavailable(name() + ": " + message);
    if (status != OPBOUND_OK) throw ProviderFailure(name() + ": " + message);
    if (const std::string wrong = detail::trespass(request, views, memory); !wrong.empty())
      throw ProviderFailure(name() + ": " + wrong);
    detail::take_outputs(request, views, memory);
  }

  [[noreturn]] static void lost() { throw std::runtime_error("the other end is gone"); }

  int socket_;
  wire::Memory& memory_;
};

class Given final : public Told {
 public:
  Given(detail::Description about, Files outputs)
      : Told(std::move(about)), outputs_(std::move(outputs)) {}

  void run(const Op& op, const Call& call) const override {
    const PassInfo& pass = op.pass(call.direction);
    for (std::size_t t = 0; t < pass.tensors.size(); ++t)
      for (const auto& [tensor, file] : outputs_)
        if (pass.tensors[t].name == tensor) {
          const TensorView& to = call.judged()[t];
          Tensor read(to.element, Shape(to.size, to.size + to.rank));
          fill_input(read, file, 0, "");
          std::memcpy(to.data, read.bytes().data(), read.bytes().size());
        }
  }

 private:
  Files outputs_;
};

}  // namespace

detail::Description described(const Json& request) {
  const Json& provider = request.at("provider");
  const auto text = [&](const char* key) { return provider.at(key).get<std::string>(); };
  std::vector<std::string> texts{text("name"), text("version"), "cpu", "", ""};
  for (const auto& [name, value] :
       provider.at("environment").get<std::vector<std::pair<std::string, std::string>>>())
    if (name == "device") texts[2] = value;
  const Json& algorithms = provider.at("algorithms");
  texts.push_back(std::to_string(algorithms.size()));
  for (const Json& row : algorithms)
    for (const Json& word : row) texts.push_back(word);
  const Json& functions = provider.at("functions");
  texts.push_back(std::to_string(functions.size()));
  for (const Json& row : functions) {
    texts.push_back(row.at(0));
    texts.push_back(fmt::format("{:.17g}", row.at(1).get<double>()));
  }
  for (const Json& row : provider.at("environment"))
    if (row.at(0) != "device")
      for (const Json& word : row) texts.push_back(word);
  try {
    return detail::Description(texts);
  } catch (const NotAPlugin& e) {
    throw InputError("provider " + texts[0], e.what(), e.expected);
  }
}

std::unique_ptr<Provider> remote_provider(detail::Description about, int socket,
                                          wire::Memory& memory) {
  return std::make_unique<Remote>(std::move(about), socket, memory);
}

std::unique_ptr<Provider> given_provider(detail::Description about, Files outputs) {
  return std::make_unique<Given>(std::move(about), std::move(outputs));
}

}  // namespace opbound
