// A page on paper: printed by a browser that is installed.
#pragma once

#include <string>

namespace opbound::report {

/// Writes the page as a PDF file by headless Chromium or Chrome, the first one found in PATH.
/// Throws InputError where there is none, where it fails, and where it takes more than two minutes.
void write_pdf(const std::string& page, const std::string& path);

}  // namespace opbound::report
