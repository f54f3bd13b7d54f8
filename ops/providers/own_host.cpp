// This project's kernels on the host.
#include <gmp.h>
#include <mpfr.h>

#include "generated/version.hpp"
#include "ops/provider.hpp"

namespace opbound {
namespace {

class OwnHost final : public Provider {
 public:
  std::string name() const override { return "own"; }
  std::string version() const override { return opbound::version; }
  std::string device() const override { return "cpu"; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return {{"compiler", __VERSION__}, {"mpfr", mpfr_get_version()}, {"gmp", gmp_version}};
  }
  Contract contract(const Op&, std::vector<int> variants) const override {
    Contract own;
    own.variants = std::move(variants);
    return own;
  }
  void run(const Op& op, const Call& call) const override { op.run(call); }
};

}  // namespace

std::unique_ptr<Provider> own_host_provider() { return std::make_unique<OwnHost>(); }

}  // namespace opbound
