// A tape's calls in fp64: the same calls in the same order, every floating-point value in fp64,
// casts the identity, by this project's own kernels on the host. What is left of rounding is that
// of fp64.
//
// Values are told by their place in the tape, so that one of a run in low precision and the exact
// one stand beside each other. The backward pass is there twice: as the tape's own calls, which
// read what the forward pass saved, and as `adjoints`, the exact gradient along any values of the
// forward pass.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "distributed/train/tape.hpp"
#include "ops/provider.hpp"
#include "ops/tensor.hpp"

namespace opbound::trace {

/// By value of a tape: fp64, or integers as they are; empty where there is none.
using Values = std::vector<Tensor>;

/// The elements of a value that a call sees.
TensorView view_of(Tensor& value, const train::Ref& r);

/// Element by element, of views of the same size: of numbers, fp64 of any format; of integers.
void copy_to(const TensorView& to, const TensorView& from);
/// to + from in its place.
void add_to(const TensorView& to, const TensorView& from);

class ExactTape {
 public:
  /// `loss`: the value that the forward pass ends with. The tape, a whole one with its backward
  /// pass, has to outlive this.
  ExactTape(const train::Tape& tape, int loss);

  const train::Tape& tape() const { return tape_; }
  std::size_t calls() const { return tape_.steps().size(); }
  /// Calls up to the one that gives the loss; those behind it are of the backward pass.
  std::size_t forward_calls() const { return forward_calls_; }
  int loss() const { return loss_; }

  /// Zeros in the shape of a value.
  Tensor zeros(int value) const;
  Values no_values() const { return Values(tape_.values().size()); }

  /// Where a call finds what it reads and leaves what it writes.
  using Find = std::function<Tensor&(int value, bool is_written)>;
  /// One call. `as_run`: its attributes in the run, for the seeds.
  void run(std::size_t call, const AttributeBytes& as_run, const Find& find) const;

  /// dL/dv of every value v of the forward pass that the loss L hangs on, in the value's shape:
  /// each call is differentiated at its `inputs`, and where its backward pass reads what the
  /// forward pass put out, at its `outputs`. Where `outputs` is what the exact calls give of
  /// `inputs`, the derivatives are exact, whatever else gave the inputs.
  Values adjoints(const std::vector<AttributeBytes>& as_run, Values& inputs, Values& outputs) const;

 private:
  /// The call in fp64, without tensors.
  Call call_of(const train::Step& step, const AttributeBytes& as_run, Direction direction) const;
  void pull(const train::Step& step, const AttributeBytes& as_run, Values& inputs, Values& outputs,
            Values& adjoint) const;
  void add_gradient(Values& adjoint, const train::Ref& x, const TensorView& dx) const;

  const train::Tape& tape_;
  int loss_;
  std::size_t forward_calls_ = 0;
  std::unique_ptr<Provider> own_ = own_host_provider();
};

}  // namespace opbound::trace
