// A page for a browser, one file without scripts and with nothing from elsewhere; and the pieces of
// which its plots are made, as SVG.
#pragma once

#include <string>
#include <string_view>

namespace opbound {

/// `text` within HTML.
std::string html_text(std::string_view text);

/// From the doctype to the body's heading; `style` is CSS beside what all pages have.
std::string page_head(std::string_view title, std::string_view style);
std::string page_end();

namespace svg {

/// A length or place in pixels, to a tenth.
std::string number(double x);
/// `kind` is a class of the page's style.
std::string line(std::string_view kind, double x1, double y1, double x2, double y2);
/// `anchor`: start, middle, end.
std::string label(double x, double y, std::string_view anchor, std::string_view text);
/// A number of an axis whose marks are powers of ten.
std::string power_text(int power);
/// `inner` in a picture that is told to those who do not see it as `what`.
std::string picture(double width, double height, std::string_view what, std::string_view inner);

}  // namespace svg
}  // namespace opbound
