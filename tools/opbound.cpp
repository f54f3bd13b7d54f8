// opbound: checks numerical operators against certified references and derived error bounds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generated/version.hpp"
#include "reports/error.hpp"
#include "suites/suggest.hpp"
#include "tools/command_help.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace {

constexpr int exit_internal = 70;  // EX_SOFTWARE of sysexits.h: a mistake of the program itself

constexpr const char* description =
    "opbound checks numerical operators of model training: every output element against a "
    "certified exact value and a bound derived from the algorithm, the summation order and these "
    "very inputs.";

constexpr const char* footer =
    "A first run:\n"
    "  check, print the table, keep the records:\n"
    "    opbound run suites/gelu.toml --out gelu.jsonl\n"
    "  the worst record in words:\n"
    "    opbound explain gelu.jsonl\n"
    "  your own kernel:\n"
    "    opbound check --op gelu --precision bf16:fp32:bf16 --in x.npy --out y.npy\n"
    "\n"
    "Exit codes: 0 nothing found; 1 an element exceeds its bound, a check failed, stayed "
    "undecided, or has a bound that says nothing and is not allowed by name; of diff: something is "
    "broken or worse; 2 wrong use or input, with one line on standard error; 3 something named by "
    "--require is missing; 70 a mistake of opbound itself; 130 interrupted, with all finished "
    "records kept.";

int report(int code, const std::string& line) {
  std::fprintf(stderr, "opbound: %s\n", line.c_str());
  return code;
}

/// What the user asked for is done only when it has left the program: a full disk is an error.
int with_output_written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return report(opbound::exit_bad_use, "standard output: cannot be written");
}

/// What CLI11 says, but for "--steps: 1 required INT:INT in [1 - 9] missing".
std::string words_of(const CLI::ParseError& error) {
  std::string words = error.what();
  const std::size_t required = words.find(": 1 required ");
  return required != std::string::npos && words.ends_with(" missing")
             ? words.substr(0, required) + ": no value"
             : words;
}

/// What the command line's reader did not take; a word in the place of a command, or of one of a
/// command's own, is one mistyped.
[[noreturn]] void refuse(const CLI::App& program, std::span<char*> words,
                         const CLI::ParseError& error) {
  const CLI::App* at = &program;
  for (const std::string_view word : words) {
    std::vector<std::string_view> commands;
    for (const CLI::App* command : at->get_subcommands({})) commands.push_back(command->get_name());
    if (commands.empty() || word.empty() || word.front() == '-') break;
    const auto found = std::find(commands.begin(), commands.end(), word);
    if (found == commands.end())
      throw opbound::InputError(
          "command line",
          "unknown command " + opbound::detail::in_quotes_with_suggestion(word, commands),
          opbound::detail::one_of(commands));
    at = at->get_subcommand(std::string(word));
  }
  throw opbound::InputError("command line", words_of(error), "the usage that --help prints");
}

int run_program(int argc, char** argv) {
  CLI::App program(description, "opbound");
  program.formatter(std::make_shared<opbound::Help>());
  program.set_version_flag("--version",
                           std::string("opbound ") + opbound::version + " " + opbound::commit,
                           "Print version and commit");
  program.require_subcommand(0, 1);
  opbound::Action chosen;
  opbound::add_run(program, chosen);
  opbound::add_list(program, chosen);
  opbound::add_table(program, chosen);
  opbound::add_sweep(program, chosen);
  opbound::add_functions(program, chosen);
  opbound::add_explain(program, chosen);
  opbound::add_check(program, chosen);
  opbound::add_reveal(program, chosen);
  opbound::add_history(program, chosen);
  opbound::add_diff(program, chosen);
  opbound::add_collective(program, chosen);
  opbound::add_train(program, chosen);
  opbound::add_attribute(program, chosen);
  opbound::add_trace(program, chosen);
  opbound::add_sentinel(program, chosen);
  opbound::add_claims(program, chosen);
  opbound::add_env(program, chosen);
  opbound::add_power(program, chosen);
  opbound::add_serve(program, chosen);
  opbound::add_report(program, chosen);
  program.footer(footer);  // of the program, not of its commands, which inherit what is there
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return with_output_written(program.exit(e));
  } catch (const CLI::ParseError& e) {
    refuse(program, std::span(argv + std::min(argc, 1), argv + argc), e);
  }
  if (!chosen) throw opbound::InputError("command line", "no command", "one that --help names");
  return with_output_written(chosen());
}

}  // namespace

int main(int argc, char** argv) {
  // A file that may not grow (`ulimit -f`) is an error of that write, as a full disk is, and says
  // so; the signal would end the program without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run_program(argc, argv);
  } catch (const opbound::InputError& e) {
    std::fflush(stdout);
    return report(opbound::exit_bad_use, e.what());
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    return report(opbound::exit_bad_use,
                  "out of memory, expected smaller sizes, or a machine with more");
  } catch (const std::exception& e) {
    std::fflush(stdout);
    return report(exit_internal, std::string("internal error: ") + e.what());
  }
}
