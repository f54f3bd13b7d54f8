// The weights that a model's calls read: made from the master weights after every update, in the
// format of each parameter's op.
//
// Where nothing is sharded they lie there whole, and are the master weights themselves if all
// formats agree. Else each rank keeps its part of every unit in the format in which it travels, and
// a unit is gathered when its calls begin: what belongs to no layer at the step's first, a layer
// into one of two buffers in turn. fsdp travels in the spec's `gather` format from the machine's
// memory; zero3-fp32 and zero3-offload through a copy in the host's memory, in fp32 and in bf16.
#pragma once

#include <array>
#include <vector>

#include "distributed/collectives.hpp"
#include "distributed/train/layout.hpp"
#include "distributed/train/machine.hpp"
#include "distributed/train/training_spec.hpp"

namespace opbound::train {

class WeightStore {
 public:
  /// `master`: what this rank owns, range after range.
  WeightStore(const TrainingSpec& spec, const Layout& layout, std::byte* master, Collectives& ranks,
              Machine& machine, const Provider& casts);

  /// Where the parameter lies while its unit is there.
  std::byte* address(std::size_t parameter) const { return addresses_[parameter]; }
  /// After the master weights changed.
  void refresh();
  /// The layer's weights are about to be read; -1: those of no layer.
  void enter(int layer);

 private:
  /// One parameter of a unit.
  struct Run {
    std::size_t parameter;
    Format format;
    std::int64_t offset_bytes;
  };

  std::int64_t find_runs(std::size_t unit);
  std::array<std::byte*, 3> gathering_buffers(const std::vector<std::int64_t>& unit_bytes);
  void cast_all();
  void cast_runs(std::size_t unit, std::byte* from, const Format& format);

  const TrainingSpec& spec_;
  const Layout& layout_;
  std::byte* master_;
  Collectives& ranks_;
  Machine& machine_;
  const Provider& casts_;
  bool is_sharded_ = false, is_alias_ = false;
  Format travels_ = fp32;
  std::vector<std::byte*> addresses_;
  std::vector<std::vector<Run>> runs_;        ///< by unit
  std::vector<std::byte*> shards_;            ///< by unit, on the machine
  std::vector<std::vector<std::byte>> host_;  ///< by unit, where they pass through the host
  std::vector<std::byte*> gathered_;          ///< of no layer, of even and of odd layers
  std::vector<std::size_t> there_;            ///< which unit is in it
};

}  // namespace opbound::train
