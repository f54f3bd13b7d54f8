// What --help prints.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace opbound {

/// Lines of 80 columns; of an option its name, what it takes, and in words its range, its default
/// and the options that go with it or do not.
class Help final : public CLI::Formatter {
 public:
  static constexpr std::size_t columns = 80;

  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace opbound
