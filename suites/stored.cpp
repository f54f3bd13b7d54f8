#include "suites/stored.hpp"

#include <cstring>

#include "suites/input.hpp"

namespace opbound {
namespace {

class Stored final : public Provider {
 public:
  Stored(std::vector<std::pair<std::string, InputSpec>> outputs, StoredOrder order,
         const FunctionErrors& functions)
      : outputs_(std::move(outputs)), order_(std::move(order)), functions_(functions) {}

  std::string name() const override { return std::string(stored_provider_name); }
  std::string version() const override { return {}; }
  std::string device() const override { return {}; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& [tensor, file] : outputs_) files.emplace_back(tensor, to_string(file));
    if (order_.order == Contract::Order::tree) files.emplace_back(order_file, order_.file);
    return files;
  }
  bool is_foreign() const override { return true; }
  Contract contract(const Op&, std::vector<int> variants) const override {
    return {std::move(variants), order_.order, functions_, order_.revealed.tree};
  }

  void run(const Op& op, const Call& call) const override {
    const PassInfo& pass = op.pass(call.direction);
    for (std::size_t t = 0; t < pass.tensors.size(); ++t)
      for (const auto& [tensor, file] : outputs_)
        if (pass.tensors[t].name == tensor) read(file, call.judged()[t]);
  }

 private:
  static void read(const InputSpec& file, const TensorView& to) {
    Tensor tensor(to.element, Shape(to.size, to.size + to.rank));
    fill_input(tensor, file, 0, "");
    std::memcpy(to.data, tensor.bytes().data(), tensor.bytes().size());
  }

  std::vector<std::pair<std::string, InputSpec>> outputs_;
  StoredOrder order_;
  FunctionErrors functions_;
};

}  // namespace

StoredOrder read_order(const std::string& text) {
  if (text == "any") return {};
  if (text == "own") return {Contract::Order::own, {}, {}};
  return {Contract::Order::tree, read_order_file(text), text};
}

std::unique_ptr<Provider> stored_provider(std::vector<std::pair<std::string, InputSpec>> outputs,
                                          StoredOrder order, const FunctionErrors& functions) {
  return std::make_unique<Stored>(std::move(outputs), std::move(order), functions);
}

}  // namespace opbound
