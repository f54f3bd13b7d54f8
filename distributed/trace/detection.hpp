// How soon what finds a planted fault, and whether the named place is the right one; and what
// clean runs raise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "distributed/trace/planted.hpp"
#include "distributed/train/training_spec.hpp"

namespace opbound::trace {

struct DetectionOptions {
  train::TrainingSpec base;      ///< its policy is each fault's
  std::filesystem::path folder;  ///< for the references' traces and their twins'
  std::int64_t first_step = 25;  ///< of the faults
  std::int64_t cap = 300;        ///< steps with the fault
  int twins = 3;                 ///< of each reference
  double alpha = 1e-3;           ///< of a false alarm: of the reference's checks, of the trend's
  std::int64_t audit_every = 10;
  int workers = 1;                                      ///< references at the same time
  std::function<void(const std::string&)> on_progress;  ///< what begins; called by any thread
  std::function<void()> on_reference;                   ///< one has ended, or a twin of one
  std::function<bool()> should_stop;
};

/// Steps from the fault to each kind of alarm; none: not within the cap.
struct Detected {
  const PlantedFault* fault = nullptr;
  std::optional<std::int64_t> step_check, audit, fingerprint, loss_to_reference, loss_alone;
  std::optional<std::int64_t> cosine_rule;  ///< cosine to the reference below 0.9999
  std::int64_t false_alarms = 0;            ///< before the fault
  std::string place;                        ///< that was named
  bool is_place_right = false;
  bool has_stopped = false;  ///< the optimizer refused to go on

  bool is_found() const { return step_check || audit || fingerprint; }
};

/// A clean run of a policy: no alarm is due.
struct CleanRun {
  std::string policy;
  std::int64_t steps = 0, alarms = 0;
  std::string first_alarm;
};

/// Compares faulty runs with references and twins of these. The runs know nothing of each other:
/// once the references are there any number of threads may examine at the same time.
class Detection {
 public:
  explicit Detection(DetectionOptions options);

  /// The runs, references and twins, that `train_references` would train.
  std::int64_t missing_references(std::span<const PlantedFault* const> faults) const;
  /// Has to come before a fault, or a twin like one, is examined.
  void train_references(std::span<const PlantedFault* const> faults);

  Detected examine(const PlantedFault& fault) const;
  /// Audits, norms and the trend over so many steps; no reference.
  CleanRun examine_clean(const std::string& policy, std::int64_t steps) const;
  /// A twin that no limit was made of, judged like a faulty run: alarms of the fingerprint, of the
  /// loss and of the rule `cosine below 0.9999`.
  Detected examine_twin(const PlantedFault& like) const;

 private:
  struct Reference {
    std::string key, trace;
    std::vector<std::string> twins;
  };
  train::TrainingSpec spec_of(const PlantedFault& fault) const;
  const Reference* find_reference(const std::string& key) const;
  void train_traced(const train::TrainingSpec& spec, const std::string& file, int twin) const;
  void run(const PlantedFault& fault, train::Observer& planted, Detected& found) const;
  void begin(const std::string& what) const;

  DetectionOptions options_;
  std::vector<Reference> references_;
};

}  // namespace opbound::trace
