// opbound report: one page for a run or a pair of runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "reports/error.hpp"
#include "reports/report/pdf.hpp"
#include "reports/report/report.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::vector<std::string> files, twins;
  std::string html, pdf;
  int tries = 0;
};

/// Throws InputError where a page would take the place of what is no page of its kind, an input
/// above all.
void require_replaceable(const std::string& path, std::string_view beginning) {
  if (path.empty() || !std::filesystem::exists(path)) return;
  std::string found(beginning.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  found.resize(static_cast<std::size_t>(file.gcount()));
  if (!found.empty() && found != beginning)
    throw InputError(path, "there is a file already that is no such page", "another name");
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError(path, "cannot be written", "a file in a folder that exists");
}

int make_report(const Options& o) {
  require_replaceable(o.html, "<!doctype html>");
  require_replaceable(o.pdf, "%PDF");
  const report::Inputs inputs = report::read_inputs(o.files, o.twins);
  report::PageOptions options;
  options.asked_to_try = o.tries > 0;
  if (o.tries > 0) {
    report::TryOptions how;
    how.most = o.tries;
    how.on_note = [](const std::string& line) {
      std::fprintf(stderr, "opbound: %s\n", line.c_str());
    };
    options.tried = report::try_changes(inputs, how);
  }
  const std::string page = report_page(inputs, options);
  if (!o.html.empty()) write_file(o.html, page);
  if (!o.pdf.empty()) {
    options.is_for_paper = true;
    report::write_pdf(report_page(inputs, options), o.pdf);
  }
  if (o.html.empty() && o.pdf.empty()) print(page);
  return exit_clean;
}

}  // namespace

void add_report(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "report", "One page for a run or a pair of runs, from whatever files there are of it");
  const auto o = std::make_shared<Options>();
  command
      ->add_option("files", o->files,
                   "Records of checks or audits (two files of checks: old and new), training logs, "
                   "one or two traces, attributions, sentinel results, power tables, claims")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--twins", o->twins,
                   "Twins of the first run, at least 2 traces, after the files: give the pair its "
                   "limits")
      ->type_name("FILE.trace");
  command
      ->add_option("--html", o->html, "The page, in one file; without it and --pdf it is printed")
      ->type_name("FILE.html");
  command->add_option("--pdf", o->pdf, "The page on paper, by a Chromium that is installed")
      ->type_name("FILE.pdf");
  command
      ->add_option(
          "--try", o->tries,
          "Measure what changes help: of each file of attributions, run the run again with "
          "this many changes of its policy; of so many checks that fail, run them again by "
          "other algorithms and in a wider format")
      ->check(CLI::Range(1, 100))
      ->type_name("N");
  command->callback([o, &chosen] { chosen = [o] { return make_report(*o); }; });
}

}  // namespace opbound
