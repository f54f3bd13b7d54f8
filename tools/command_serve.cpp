// opbound serve: answers libopbound, which starts it (tools/python/README.md).
#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "distributed/trace/call_judge.hpp"
#include "reports/error.hpp"
#include "suites/folder.hpp"
#include "suites/foreign.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"
#include "tools/command_case.hpp"
#include "tools/command_files.hpp"
#include "tools/command_line.hpp"
#include "tools/command_serve_kernel.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

using wire::Json;
using Words = std::vector<std::string>;

constexpr int connection = 3, shared_memory = 4;  // as libopbound hands them over

/// The other end is gone: nobody is left to answer.
struct Gone {};

void say(const Json& message) {
  if (!wire::send(connection, message)) throw Gone{};
}

/// Op, direction, precision and attributes; variants, unless the provider tells them.
CaseSpec case_of(const Json& request) {
  const auto text = [&](const char* key) { return request.at(key).get<std::string>(); };
  CaseWords words{text("op"), text("precision"), text("direction"), request.at("attributes"),
                  request.at("variants")};
  if (std::find(direction_names.begin(), direction_names.end(), words.direction) ==
      direction_names.end())
    throw InputError("direction", "'" + words.direction + "'",
                     "forward, backward_local or backward_full");
  return read_case("op", words);
}

// ---- a kernel over a suite

bool has_attributes(const CaseSpec& spec, const CaseSpec& wanted, const Words& free) {
  return std::all_of(
      spec.op->attributes.begin(), spec.op->attributes.end(), [&](const AttributeSpec& a) {
        const bool is_free = std::find(free.begin(), free.end(), a.name) != free.end();
        return is_free || a.get(spec.attributes) == a.get(wanted.attributes);
      });
}

Tier tier_named(const std::string& name) {
  constexpr std::array<std::string_view, 3> names{"quick", "full", "nightly"};
  const auto place = std::find(names.begin(), names.end(), name);
  if (place == names.end()) throw InputError("tier", "'" + name + "'", "quick, full or nightly");
  return static_cast<Tier>(place - names.begin());
}

/// The cases of the suite that the request means.
std::vector<CaseSpec> chosen_cases(const Json& request, const CaseSpec& wanted) {
  std::string suite = request.at("suite");
  if (suite.empty()) suite = suite_file_named(std::string(wanted.op->name) + ".toml");
  if (suite.empty())
    throw InputError("suite", "no suites are beside the program or above it", "a suite's file");
  const Tier tier = tier_named(request.at("tier"));
  const std::string only = request.at("only");
  const Words free = request.at("free");
  std::vector<CaseSpec> cases;
  Words precisions;
  for (CaseSpec& spec : read_suite(suite).cases) {
    const bool is_meant = spec.op == wanted.op && spec.direction == wanted.direction &&
                          spec.tier <= tier && has_attributes(spec, wanted, free) &&
                          (spec.name + ": " + identity(spec)).find(only) != std::string::npos;
    if (!is_meant) continue;
    const std::string precision(name_of(spec.precision));
    if (precision != name_of(wanted.precision)) {
      if (std::find(precisions.begin(), precisions.end(), precision) == precisions.end())
        precisions.push_back(precision);
      continue;
    }
    spec.suite = suite;
    cases.push_back(std::move(spec));
  }
  if (!cases.empty()) return cases;
  std::string expected = "others than these attributes, this direction, tier or text";
  for (std::size_t i = 0; i < precisions.size(); ++i)
    expected = (i == 0 ? "one of its precisions: " : expected + ", ") + precisions[i];
  throw InputError(suite, "no such case of " + std::string(name_of(wanted.precision)), expected);
}

void verify(const Json& request, wire::Memory& memory) {
  const CaseSpec wanted = case_of(request);
  const auto kernel = remote_provider(described(request), connection, memory);
  std::vector<CaseSpec> cases = cases_for(*kernel, chosen_cases(request, wanted));
  std::erase_if(cases, [&](const CaseSpec& c) {  // it is none of these algorithms
    return kernel->variants(*c.op, c.direction, c.attributes, c.variant).empty();
  });
  if (cases.empty())
    throw InputError("variant", "no case of the suite is for it", "one that the attributes allow");
  for (CaseSpec& spec : cases) {
    if (spec.allowed_vacuous.empty()) spec.allowed_vacuous = request.at("allow_vacuous");
    for (const Record& record : run_case(spec, *kernel)) say({{"record", to_json(record)}});
  }
}

// ---- tensors of a call

/// What the user is told stands in no file of his.
[[noreturn]] void refuse_without(const std::string& file, std::string text) {
  for (std::size_t at = text.find(file); at != std::string::npos; at = text.find(file))
    text.replace(at, file.size(), "the tensors");
  throw InputError(text);
}

std::vector<Record> judged(const Json& request) {
  const std::string file = request.at("file");
  CaseSpec spec = case_of(request);
  const auto texts = [&](const char* key) {
    Words all;
    for (const std::string name : request.at(key)) all.push_back(name + "=" + file + ":" + name);
    return all;
  };
  spec.inputs = assign("in", texts("in"), spec, read_tensors(spec));
  const Files results = assign("out", texts("out"), spec, written_tensors(spec));
  take_files(spec, results, request.at("sizes"));

  const auto kernel = given_provider(described(request), results);
  const Json& place = request.at("place");
  const std::string part = place.at("part");
  train::Step step;
  step.spec = spec;
  step.part = part.empty() ? std::string(spec.op->name) : part;
  step.layer = place.at("layer");
  Prepared prepared = prepare(spec);
  kernel->run(*spec.op, prepared.call);
  trace::PastCall past{{}, &step, prepared.call, kernel.get(), 0, request.at("seed")};
  past.place.step = place.at("step");
  past.place.index = place.at("call");
  past.place.micro_batch = -1;
  trace::Share share;
  share.certified = request.at("certified");
  std::vector<Record> records = trace::judge_call(past, share).records;
  std::erase_if(records, [&](const Record& r) {
    return std::none_of(results.begin(), results.end(),
                        [&](const auto& output) { return output.first == r.part; });
  });
  return records;
}

void judge(const Json& request) {
  std::vector<Record> records;
  try {
    records = judged(request);
  } catch (const InputError& e) {
    refuse_without(request.at("file"), e.what());
  }
  for (const Record& record : records) say({{"record", to_json(record)}});
}

void answer(const Json& request, wire::Memory& memory) {
  try {
    if (request.at("ask") == "verify")
      verify(request, memory);
    else if (request.at("ask") == "judge")
      judge(request);
    else
      throw InputError("ask", request.at("ask").dump(), "verify or judge");
    say({{"done", true}});
  } catch (const std::bad_alloc&) {
    say({{"error", "out of memory, expected smaller tensors, or a machine with more"}});
  } catch (const std::exception& e) {
    say({{"error", e.what()}});
  }
}

int serve() {
  wire::Memory memory(shared_memory);
  try {
    while (const std::optional<Json> request = wire::receive(connection)) answer(*request, memory);
  } catch (const Gone&) {
  } catch (const std::runtime_error& e) {
    throw InputError("serve", e.what(), "to be started by libopbound");
  }
  return exit_clean;
}

}  // namespace

void add_serve(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand("serve", "Answer libopbound, which starts it");
  command->group("");  // no command of a user's
  command->callback([&chosen] { chosen = serve; });
}

}  // namespace opbound
