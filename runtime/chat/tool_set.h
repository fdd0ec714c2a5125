#pragma once

#include "runtime/chat/value_types.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The tools of a request, with the details that readers of calls need.
class ToolSet {
 public:
  ToolSet() = default;
  // `tools` as in OpenAI's API: [{"type": "function", "function": {"name": ..., "parameters": schema}}].
  // Tools without a name are left out.
  explicit ToolSet(const nlohmann::ordered_json& tools);

  bool empty() const { return tools_.empty(); }
  bool contains(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // Whether `text` is a prefix of a tool's name followed by `end`.
  bool has_name_beginning_with(std::string_view text, std::string_view end) const;
  // The types of a parameter's values; any type for unknown parameters.
  ValueTypes types_of(std::string_view tool, std::string_view parameter) const;
  // Whether the tool's schema names this parameter, or names no parameters.
  bool may_have(std::string_view tool, std::string_view parameter) const;
  // Whether a call lacks a required parameter, without arguments and with the `given` arguments.
  bool requires_any(std::string_view tool) const { return requires_more(tool, {}); }
  bool requires_more(std::string_view tool, const std::vector<std::string>& given) const;

 private:
  struct Tool {
    std::map<std::string, ValueTypes, std::less<>> parameters{};
    std::set<std::string, std::less<>> required{};
  };

  static Tool tool_of(const nlohmann::ordered_json& schema, SchemaWork& work);

  std::map<std::string, Tool, std::less<>> tools_;
};

}  // namespace tp
