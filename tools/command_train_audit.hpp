// `opbound train --audit`: calls of chosen steps are judged while the run goes on.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "distributed/trace/audit.hpp"
#include "reports/history.hpp"

namespace opbound {

struct AuditChoice {
  std::int64_t every = 0;  ///< 0: no audit
  std::string out;
  bool is_certified = false;
};

void add_audit_options(CLI::App& command, AuditChoice& choice);

/// An audit and what is told of it.
class TrainAudit {
 public:
  /// Of rank r > 0 the records go to FILE.rank<r>.jsonl. Throws InputError where the file cannot be
  /// written.
  TrainAudit(const AuditChoice& choice, const std::string& device);

  trace::Audit& observer() { return *audit_; }
  /// Writes the records to the disk and, on rank 0, tells findings and figures on stderr. Gives the
  /// exit code of a run that would have ended with `code`.
  int end(int code, bool is_quiet);

 private:
  std::unique_ptr<RecordWriter> out_;
  std::unique_ptr<trace::Audit> audit_;
};

}  // namespace opbound
