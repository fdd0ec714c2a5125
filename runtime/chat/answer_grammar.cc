#include "runtime/chat/answer_grammar.h"

#include "model/files/json_text.h"
#include "model/tokenizer/text/utf8.h"
#include "runtime/constraint/constraint_compiler.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSpace = "[ \\t\\r\\n]";
constexpr const char* kFinalChannel = " %marker \"<|channel|>final<|message|>\"";
constexpr std::size_t kMaxName = 256;
constexpr std::size_t kMaxTools = 512;

std::string gbnf_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n')
      quoted += "\\n";
    else if (c == '\r')
      quoted += "\\r";
    else
      quoted += c;
  }
  return quoted + "\"";
}

// Writes a text of a template as grammar, in which any call id matches kAnyCallId.
std::string written(std::string_view text) {
  const std::string_view id = kAnyCallId;
  std::string grammar;
  while (true) {
    const std::size_t place = std::min(text.find(id), text.size());
    if (place > 0) grammar += fmt::format(" %marker {}", gbnf_quoted(text.substr(0, place)));
    if (place == text.size()) return grammar;
    grammar += " [a-zA-Z0-9]{9}";
    text.remove_prefix(place + id.size());
  }
}

// The parameters of a function, as a schema with the type object. `all`: a grammar whose budget all tools
// share.
Json parameters_of(const Json& function, const std::string& name, const constraint::ByteGrammar& all) {
  Json parameters = function.value("parameters", Json());
  if (parameters.is_null()) return {{"type", "object"}, {"properties", Json::object()}};
  const auto require_object = [&](bool is_so, const Json& found) {
    require<RequestError>(is_so,
                          "`tools`: expected as parameters of `{}` a JSON Schema of the type object, found "
                          "{}; correct it",
                          name, json_text(found));
  };
  require_object(parameters.is_object(), parameters);
  const Json type = parameters.value("type", Json("object"));
  require_object(type == "object", type);
  parameters["type"] = type;
  try {
    constraint::grammar_of(constraint::JsonSchema{.schema = json_text(parameters)}, {}, nullptr,
                           all.scratch());
  } catch (const RequestError& error) {
    throw_error<RequestError>("`tools`: parameters of `{}`: {}", name, error.what());
  }
  return parameters;
}

// The arguments of a tool that gets a text, as terms of a grammar.
std::string text_arguments(const std::string& name, const TextFormat& format,
                           const constraint::ByteGrammar& all) {
  std::string term = R"(%json {"type": "string"})";
  if (format.syntax != TextFormat::Syntax::any) {
    const bool is_lark = format.syntax == TextFormat::Syntax::lark;
    const std::string text = gbnf_quoted(format.definition);
    term = fmt::format("{} {}", is_lark ? "%lark" : "%regex", text);
    try {
      constraint::grammar_of(constraint::Grammar{"root ::= " + term}, {}, nullptr, all.scratch());
    } catch (const RequestError& error) {
      throw_error<RequestError>("`tools`: the format of `{}`: {}", name, error.what());
    }
    const Json matching = {{"type", "string"}, {"pattern", fmt::format("^(?:{})$", format.definition)}};
    term = is_lark ? "%lark_string " + text : "%json " + json_text(matching);
  }
  return fmt::format(R"("{{" " "? "\"{}\":" " "? {} " "? "}}")", kTextParameter, term);
}

// Rules for texts that begin with none of the given texts.
class OtherBeginning {
 public:
  explicit OtherBeginning(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) add(text);
  }

  // Adds the rules to `grammar`, and returns the name of the first rule.
  std::string rules(std::string& grammar) {
    write(root_, grammar);
    return rule_name(root_);
  }

 private:
  struct Node {
    std::map<char32_t, std::unique_ptr<Node>> next{};
    bool ends = false;
    std::size_t index = 0;
  };

  static std::string rule_name(const Node& node) { return fmt::format("other-{}", node.index); }

  void add(std::string_view text) {
    Node* node = &root_;
    for (const auto [character, bytes] : utf8::Characters(text)) {
      std::unique_ptr<Node>& next = node->next[character];
      if (!next) {
        next = std::make_unique<Node>();
        next->index = ++nodes_;
      }
      node = next.get();
    }
    node->ends = true;
  }

  // The characters of the given texts lead to the next node, and all other characters lead to any text.
  void write(const Node& node, std::string& grammar) {
    std::string choices;
    std::string known;
    for (const auto& [character, next] : node.next) {
      const std::string one = fmt::format("\\U{:08x}", static_cast<std::uint32_t>(character));
      known += one;
      if (!next->ends) choices += fmt::format("\"{}\" {} | ", one, rule_name(*next));
    }
    grammar += fmt::format("{} ::= ({}[^{}] .*)?\n", rule_name(node), choices, known);
    for (const auto& [character, next] : node.next) {
      if (!next->ends) write(*next, grammar);
    }
  }

  Node root_;
  std::size_t nodes_ = 0;
};

class CallGrammar {
 public:
  CallGrammar(const CallShape& shape, const MessageSyntax& syntax, const CallRules& rules)
      : shape_(shape), syntax_(syntax), rules_(rules) {}

  std::string of(const Json& tools) {
    add_rules(tools);
    const std::string answer = rules_.required ? only_calls() : text_or_calls();
    return fmt::format("root ::={}\n{}", answer, grammar_);
  }

  // `before`: terms before the answer. `header`: terms before a text that is not a call.
  std::string with_constraint(const Json& tools, const std::string& before, const std::string& header) {
    add_rules(tools);
    const std::string text = rules_.required ? "" : fmt::format(" |{} %constraint", header);
    return fmt::format("root ::={} ({}{} )\n{}", before, only_calls(), text, grammar_);
  }

 private:
  void add_rules(const Json& tools) {
    require<RequestError>(tools.size() <= kMaxTools,
                          "`tools`: expected at most {} tools, found {}; offer fewer", kMaxTools,
                          tools.size());
    for (const Json& tool : tools) add(tool);
    const std::string more = rules_.has_one_call || shape_.separator.empty()
                                 ? ""
                                 : fmt::format(" ({} call)*", written(shape_.separator));
    grammar_ += fmt::format("call ::= {}\ncalls ::= call{}{}\n", calls_, more, written(shape_.end));
  }

  std::string only_calls() const { return written(shape_.begin) + " calls"; }

  void add(const Json& tool) {
    const Json function = tool.value("function", Json::object());
    const std::string name = function.value("name", "");
    require<RequestError>(name.size() <= kMaxName,
                          "`tools`: expected names of at most {} bytes, found one of {}; shorten it",
                          kMaxName, name.size());
    if (!rules_.name.empty() && name != rules_.name) return;
    const auto text = rules_.texts.find(name);
    const std::string rule = fmt::format("arguments-{}", names_.size());
    if (text != rules_.texts.end()) {
      grammar_ += fmt::format("{} ::= {}\n", rule, text_arguments(name, text->second, checked_));
    } else {
      const bool is_held = rules_.required || has_held_arguments(tool, rules_);
      const Json schema = is_held ? parameters_of(function, name, checked_) : Json{{"type", "object"}};
      grammar_ += fmt::format("{} ::= %json {}\n", rule, json_text(schema));
    }
    calls_ += fmt::format("{}{}{} {}", names_.empty() ? "" : " | ", gbnf_quoted(in_shape(name)),
                          written(shape_.middle), rule);
    names_.push_back(name);
  }

  // The name as it appears in a call. Inside JSON quotes it is escaped.
  std::string in_shape(const std::string& name) const {
    if (!shape_.begin.ends_with('"')) return name;
    const std::string quoted = json_text(Json(name));
    return quoted.substr(1, quoted.size() - 2);
  }

  std::string text_or_calls() {
    if (!shape_.marker.empty()) {
      return fmt::format(" %without {0} | %until {0}{1} calls", gbnf_quoted(shape_.marker),
                         written(shape_.begin.substr(shape_.marker.size())));
    }
    if (syntax_.has_channels) return fmt::format("{} |{} .*", only_calls(), kFinalChannel);
    std::vector<std::string> beginnings = {"{", "["};
    if (shape_.begin.empty()) beginnings.insert(beginnings.end(), names_.begin(), names_.end());
    return fmt::format("{} | {}* {}", only_calls(), kSpace, OtherBeginning(beginnings).rules(grammar_));
  }

  const CallShape& shape_;
  const MessageSyntax& syntax_;
  const CallRules& rules_;
  std::string grammar_;
  std::string calls_;
  std::vector<std::string> names_;
  constraint::ByteGrammar checked_;  // empty; its budget limits the checks of all tools together
};

// Thinking, as terms of a grammar.
std::string thinking_terms(const MessageSyntax& syntax, Thinking thinking) {
  if (syntax.thinking.empty() || thinking == Thinking::never) return "";
  const std::string begin = " %marker " + gbnf_quoted(syntax.thinking.begin);
  const std::string end = " %until " + gbnf_quoted(syntax.thinking.end);
  if (syntax.has_channels) return fmt::format(" ({}{} %marker \"<|start|>assistant\")?", begin, end);
  // Models end thinking with an empty line. Bounded, because some models would write nothing but white space.
  const std::string space = fmt::format(" {}{{0,8}}", kSpace);
  if (thinking == Thinking::begun) return end + space;
  return fmt::format(" ({}{}{}{} )?", space, begin, end, space);
}

// The header of a text: its channel, or Cohere's marker.
std::string header_terms(const MessageSyntax& syntax) {
  if (syntax.has_channels) return kFinalChannel;
  return syntax.wrappers.empty() ? "" : fmt::format(" ( %marker {})?", gbnf_quoted(syntax.wrappers.front()));
}

}  // namespace

std::string frame_grammar(const MessageSyntax& syntax, Thinking thinking, bool has_calls) {
  const std::string before =
      thinking_terms(syntax, thinking) + (has_calls ? std::string() : header_terms(syntax));
  return before.empty() ? "" : fmt::format("root ::={} %constraint\n", before);
}

std::string calls_or_constraint_grammar(const CallShape& shape, const MessageSyntax& syntax,
                                        const Json& tools, const CallRules& rules, Thinking thinking) {
  return CallGrammar(shape, syntax, rules)
      .with_constraint(tools, thinking_terms(syntax, thinking), header_terms(syntax));
}

std::string call_grammar(const CallShape& shape, const MessageSyntax& syntax, const Json& tools,
                         const CallRules& rules) {
  return CallGrammar(shape, syntax, rules).of(tools);
}

bool has_held_arguments(const Json& tool, const CallRules& rules) {
  const Json function = tool.is_object() ? tool.value("function", Json()) : Json();
  if (!function.is_object()) return false;
  const Json name = function.value("name", Json());
  const auto text = name.is_string() ? rules.texts.find(name.get<std::string>()) : rules.texts.end();
  return function.value("strict", Json()) == Json(true) ||
         (text != rules.texts.end() && text->second.syntax != TextFormat::Syntax::any);
}

}  // namespace tp
