// search_worst: inputs at which our own kernels' errors come nearest to their bounds. Exit code 1
// if one is beyond: then a bound, or a kernel, is wrong.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <fstream>

#include "bounds/verdict.hpp"
#include "ops/parallel.hpp"
#include "reports/error.hpp"
#include "suites/folder.hpp"
#include "suites/worst.hpp"

namespace {

using namespace opbound;

struct Options {
  std::string op, folder = "suites/worst", suites;
  std::uint64_t seed = 1, evaluations = 1000;
};

std::vector<WorstCase> searched(const std::vector<CaseSpec>& cases, const Options& o) {
  std::vector<WorstCase> found(cases.size());
  parallel_for(std::ssize(cases), std::int64_t{1} << 20, [&](std::int64_t i) {
    const auto place = static_cast<std::size_t>(i);
    found[place] = search_worst(cases[place], o.seed, o.evaluations);
  });
  return found;
}

void tell(const WorstCase& c) {
  const auto& spec = c.spec;
  std::printf("%s\n",
              fmt::format("{} {} {} {}: {:.3f} -> {:.3f} in {}{}", spec.op->name,
                          name_of(spec.direction), name_of(spec.precision),
                          spec.op->variants[static_cast<std::size_t>(spec.variant)].name, c.before,
                          c.found.ratio, c.found.output, c.found.exceeds ? " EXCEEDS" : "")
                  .c_str());
}

int search(const Options& o) {
  if (find_op(o.op) == nullptr)
    throw InputError("search_worst", "unknown operator '" + o.op + "'", "one of `opbound list`");
  const std::string folder = o.suites.empty() ? suites_folder(o.op + ".toml").string() : o.suites;
  const Suite suite = read_suite(folder + "/" + o.op + ".toml");
  const std::vector<WorstCase> found = searched(cases_worth_a_search(suite), o);
  const std::string path = o.folder + "/" + o.op + ".txt";
  std::ofstream file(path);
  file << worst_file_text(
      fmt::format("search_worst {} --seed {} --evaluations {}", o.op, o.seed, o.evaluations),
      found);
  file.close();
  if (!file) throw InputError(path, "cannot be written", "a folder that is there");
  bool exceeds = false;
  for (const WorstCase& c : found) {
    tell(c);
    exceeds = exceeds || c.found.exceeds;
  }
  return exceeds ? exit_found : exit_clean;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Searches inputs for the largest ratio of error and bound of our own kernels",
                   "search_worst");
  Options o;
  program.add_option("op", o.op, "Of which operator")->type_name("OP")->required();
  program.add_option("--seed", o.seed, "Another seed is another search")->capture_default_str();
  program.add_option("--evaluations", o.evaluations, "Of each case")->capture_default_str();
  program.add_option("--out", o.folder, "The folder in which OP.txt is written")
      ->capture_default_str();
  program.add_option("--suites", o.suites, "Where OP.toml is");
  try {
    program.parse(argc, argv);
    return search(o);
  } catch (const CLI::ParseError& e) {
    const int code = program.exit(e);
    return code == 0 ? 0 : exit_bad_use;
  } catch (const InputError& e) {
    std::fprintf(stderr, "search_worst: %s\n", e.what());
    return exit_bad_use;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "search_worst: internal error: %s\n", e.what());
    return 70;  // EX_SOFTWARE of sysexits.h
  }
}
