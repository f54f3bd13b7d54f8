#include "reports/page.hpp"

#include <cmath>

#include "reports/text.hpp"

namespace opbound {
namespace {

constexpr std::string_view common_style = R"css(
:root { --paper: #fff; --ink: #1c1e21; --faint: #6b7280; --line: #d9dce1; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14161a; --ink: #e6e8eb; --faint: #9aa3af; --line: #343942; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 90rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
p { max-width: 46rem; } .faint { color: var(--faint); }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.frame { fill: none; stroke: var(--line); } .grid { stroke: var(--line); stroke-dasharray: 2 4; }
)css";

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text, true)) switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  return escaped;
}

std::string page_head(std::string_view title, std::string_view style) {
  const std::string heading = html_text(title);
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
         heading + "</title>\n<style>" + std::string(common_style) + std::string(style) +
         "</style>\n</head>\n<body>\n<h1>" + heading + "</h1>\n";
}

std::string page_end() { return "</body>\n</html>\n"; }

namespace svg {

std::string number(double x) { return shortest(std::round(10 * x) / 10); }

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) +
         "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\"/>\n";
}

std::string label(double x, double y, std::string_view anchor, std::string_view text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + html_text(text) + "</text>\n";
}

std::string power_text(int power) {
  return power > 4 ? "1e" + std::to_string(power) : shortest(std::pow(10, power));
}

std::string picture(double width, double height, std::string_view what, std::string_view inner) {
  return "<svg width=\"" + number(width) + "\" height=\"" + number(height) + "\" viewBox=\"0 0 " +
         number(width) + " " + number(height) + "\" role=\"img\" aria-label=\"" + html_text(what) +
         "\">\n" + std::string(inner) + "</svg>\n";
}

}  // namespace svg
}  // namespace opbound
