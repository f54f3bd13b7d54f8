// Whether a page can be used by everybody, offline, on paper and on a small screen: what can be
// decided from its text alone.
#pragma once

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace opbound {

/// The relative luminance of "#rrggbb" (WCAG 2.1).
inline double luminance(const std::string& hex) {
  double sum = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (int i = 0; i < 3; ++i) {
    const std::string digits = hex.substr(1 + 2 * static_cast<std::size_t>(i), 2);
    const double c = std::stoi(digits, nullptr, 16) / 255.0;
    sum += weights[i] * (c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return sum;
}

inline double contrast(const std::string& a, const std::string& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

/// The colours by name, as a light page has them, and over them those of a dark one.
struct PageColours {
  std::map<std::string, std::string> light, dark;
};

inline PageColours colours_of(const std::string& page) {
  const std::string style =
      page.substr(page.find("<style>"), page.find("</style>") - page.find("<style>"));
  static const std::regex root(
      R"((@media \(prefers-color-scheme: dark\) \{\s*)?:root \{([^}]*)\})");
  static const std::regex named(R"(--([a-z0-9-]+): *(#[0-9a-fA-F]{3,6}))");
  PageColours colours;
  std::map<std::string, std::string> dark;
  for (std::sregex_iterator at(style.begin(), style.end(), root), end; at != end; ++at) {
    const std::string inner = (*at)[2];
    for (std::sregex_iterator c(inner.begin(), inner.end(), named); c != end; ++c) {
      std::string hex = (*c)[2];
      if (hex.size() == 4) hex = {'#', hex[1], hex[1], hex[2], hex[2], hex[3], hex[3]};
      ((*at)[1].matched ? dark : colours.light)[(*c)[1]] = hex;
    }
  }
  colours.dark = colours.light;
  for (const auto& [name, hex] : dark) colours.dark[name] = hex;
  return colours;
}

/// One line for each text colour that stands out too little (4.5 to 1, WCAG 2.1 AA) from what it
/// is written on: the paper, or for "h3-ink" the colour "h3". "line" draws, and writes nothing.
inline std::vector<std::string> faint_colours(const std::string& page) {
  std::vector<std::string> wrong;
  const PageColours both = colours_of(page);
  for (const auto* colours : {&both.light, &both.dark})
    for (const auto& [name, hex] : *colours) {
      static const std::set<std::string> never_text{"paper", "line", "old"};
      const bool is_ground = name.size() == 2 && name[0] == 'h';
      if (never_text.contains(name) || is_ground) continue;
      const bool is_ink = name.ends_with("-ink");
      const std::string ground = is_ink ? name.substr(0, name.size() - 4) : "paper";
      if (!colours->contains(ground) || contrast(hex, colours->at(ground)) < 4.5)
        wrong.push_back(name + " " + hex + (colours == &both.dark ? ", dark" : ", light"));
    }
  return wrong;
}

/// One line for everything else that is wrong.
inline std::vector<std::string> page_mistakes(const std::string& page) {
  std::vector<std::string> wrong;
  std::set<std::string> ids;
  int level = 0;
  static const std::regex tag(R"(<([a-z0-9]+)((?: [a-z-]+(?:="[^"]*")?)*) ?/?>)");
  static const std::regex attribute(R"( ([a-z-]+)="([^"]*)\")");
  std::vector<std::string> links;
  for (std::sregex_iterator at(page.begin(), page.end(), tag), end; at != end; ++at) {
    const std::string name = (*at)[1], all = (*at)[2], whole = (*at)[0];
    std::map<std::string, std::string> with;
    for (std::sregex_iterator a(all.begin(), all.end(), attribute); a != end; ++a)
      with[(*a)[1]] = (*a)[2];
    if (with.contains("id") && !ids.insert(with["id"]).second)
      wrong.push_back("an id twice: " + with["id"]);
    if (name == "a" && with["href"].starts_with("#")) links.push_back(with["href"].substr(1));
    if (name == "a" && !with["href"].starts_with("#")) wrong.push_back("leads away: " + whole);
    if (name == "th" && !with.contains("scope")) wrong.push_back("a header of nothing: " + whole);
    if (name == "script" || name == "link" || name == "img" || name == "iframe")
      wrong.push_back("from elsewhere: " + whole);
    if (name == "svg" &&
        (with["role"] != "img" || (with["aria-label"].empty() &&
                                   page.compare(at->position() + at->length(), 7, "<title>") != 0)))
      wrong.push_back("a picture without words: " + whole);
    if (name.size() == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6') {
      const int to = name[1] - '0';
      if (to > level + 1 || (to == 1 && level > 0)) wrong.push_back("a heading too deep: " + whole);
      level = to;
    }
  }
  for (const std::string& link : links)
    if (!ids.contains(link)) wrong.push_back("leads nowhere: #" + link);
  static const std::regex empty(R"(<(td|th)( [^>]*)?>\s*</(td|th)>)");
  for (std::sregex_iterator at(page.begin(), page.end(), empty), end; at != end; ++at)
    wrong.push_back("an empty cell: " + (*at)[0].str());
  if (page.find("<html lang=") == std::string::npos) wrong.emplace_back("no language");
  if (page.find("<title></title>") != std::string::npos) wrong.emplace_back("no title");
  return wrong;
}

}  // namespace opbound
