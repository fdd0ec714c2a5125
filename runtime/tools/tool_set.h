#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The tools that a request offers, as far as one must know them to read calls.
class ToolSet {
 public:
  ToolSet() = default;
  // `tools` as in OpenAI's API: [{"type": "function", "function": {"name": ..., "parameters": schema}}]. What
  // has no name is left out.
  explicit ToolSet(const nlohmann::ordered_json& tools);

  bool empty() const { return tools_.empty(); }
  bool contains(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // Whether a tool's name, followed by `end`, begins with `text`.
  bool has_name_beginning_with(std::string_view text, std::string_view end) const;
  // Whether a parameter is a text whatever it looks like: "2" is no number then.
  bool is_text(std::string_view tool, std::string_view parameter) const;

 private:
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> tools_;  // parameters that are texts
};

}  // namespace tp
