#include "tools/command_train_audit.hpp"

#include <cstdio>
#include <filesystem>

#include "distributed/launch.hpp"
#include "reports/text.hpp"
#include "tools/command_line.hpp"

namespace opbound {
namespace {

std::string file_of_rank(const std::filesystem::path& file, std::int32_t rank) {
  if (rank == 0) return file.string();
  std::filesystem::path own = file;
  own.replace_filename(file.stem().string() + ".rank" + std::to_string(rank) +
                       file.extension().string());
  return own.string();
}

}  // namespace

void add_audit_options(CLI::App& command, AuditChoice& choice) {
  CLI::Option* every =
      command
          .add_option("--audit", choice.every,
                      "Judge every call of each STEPS-th step, from the first on, and what ties "
                      "calls and steps together")
          ->type_name("STEPS")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--audit-out", choice.out, "Append the audit's records to this file")
      ->type_name("FILE.jsonl")
      ->needs(every);
  command
      .add_flag("--audit-certified", choice.is_certified,
                "Judge everything, not a sample; a small model's step takes 200 times as long")
      ->needs(every);
}

TrainAudit::TrainAudit(const AuditChoice& choice, const std::string& device) {
  trace::AuditOptions options;
  options.every = choice.every;
  options.share.certified = choice.is_certified;
  options.make_provider = [device](const std::string& name) {
    return plugin_of_policy(name, device);
  };
  if (!choice.out.empty()) {
    out_ = std::make_unique<RecordWriter>(file_of_rank(choice.out, own_rank()));
    options.on_record = [this](const Record& r) { out_->write(r); };
  }
  audit_ = std::make_unique<trace::Audit>(std::move(options));
}

int TrainAudit::end(int code, bool is_quiet) {
  if (out_ != nullptr) out_->close();
  out_.reset();
  const trace::AuditSummary s = audit_->summary();
  const std::vector<trace::Finding> findings = audit_->findings();
  if (own_rank() == 0) {
    for (const trace::Finding& f : findings)
      std::fprintf(stderr, "opbound: audit: %s\n", trace::text_of(f).c_str());
    const double times = s.times_longer();
    const std::string cost =
        times > 0 ? "; an audited step took " + legible(times) + " times as long as another" : "";
    if (!is_quiet)
      std::fprintf(stderr,
                   "opbound: audit: %lld steps, %lld calls, %llu elements by their bounds, "
                   "%zu findings%s\n",
                   static_cast<long long>(s.steps), static_cast<long long>(s.calls),
                   static_cast<unsigned long long>(s.elements), findings.size(), cost.c_str());
  }
  return code == exit_clean && !findings.empty() ? exit_found : code;
}

}  // namespace opbound
