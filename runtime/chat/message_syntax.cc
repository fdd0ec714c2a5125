#include "runtime/chat/message_syntax.h"

#include "model/files/blanks.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tp {
namespace {

struct TemplateFamily {
  std::vector<std::string_view> signs;  // texts that identify the family's templates
  CallNotation calls;
};

// DeepSeek V3.2 and V4 have different names for the block around calls.
CallNotation dsml_calls(const std::string& block) {
  const std::string end = "</｜DSML｜" + block + ">";
  return {.form = CallForm::tagged,
          .tags = &kDsmlInvocations,
          .begins = {"<｜DSML｜" + block + ">"},
          .fillers = {end},
          .heads = {std::string(kDsmlInvocations.head)},
          .end = end};
}

// `suffix`: the end of all tags' names.
CallNotation hunyuan_calls(const TagNotation& tags, const std::string& suffix) {
  const std::string end = "</tool_call" + suffix + ">";
  const std::string section = "<tool_calls" + suffix + ">";
  return {.form = CallForm::tagged,
          .tags = &tags,
          .begins = {"<tool_call" + suffix + ">"},
          .fillers = {section, end, "</tool_calls" + suffix + ">"},
          .sections = {section},
          .end = end};
}

// The first family with a sign in the template applies.
const std::vector<TemplateFamily>& families() {
  static const std::vector<TemplateFamily> kFamilies = {
      {{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
       {.form = CallForm::deepseek,
        .begins = {"<｜tool▁call▁begin｜>"},
        .fillers = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "```"},
        .sections = {"<｜tool▁calls▁begin｜>"}}},
      {{"[TOOL_CALLS]"}, {.form = CallForm::mistral, .begins = {"[TOOL_CALLS]"}}},
      {{"<|tool_calls_section_begin|>"},
       {.form = CallForm::kimi,
        .begins = {"<|tool_call_begin|>"},
        .fillers = {"<|tool_calls_section_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"},
        .sections = {"<|tool_calls_section_begin|>"}}},
      // Solar Open's. An answer is a sequence of parts, each of which is a message of the assistant.
      {{"<|tool_call:begin|>"},
       {.form = CallForm::solar,
        .begins = {"<|tool_call:begin|>"},
        .fillers = {"<|tool_calls|>", "<|tool_call:end|>", "<|calls|>", "<|begin|>", "<|end|>"},
        .sections = {"<|tool_calls|>"}}},
      // MiniCPM3's, in a code block.
      {{"<|thought_start|>"},
       {.form = CallForm::pythonic,
        .begins = {"<|tool_call_start|>\n```python\n"},
        .fillers = {"```", "<|tool_call_end|>", "<|tool_call_start|>"},
        .end = "```"}},
      // InternLM2's.
      {{"<|action_start|>"},
       {.begins = {"<|action_start|><|plugin|>"},
        .fillers = {"<|action_end|>", "<|action_start|>", "<|plugin|>"}}},
      // LFM2's, of which the last sign is 2.5's.
      {{"<|tool_call_start|>", "<|tool_list_start|>", "List of tools: ["},
       {.form = CallForm::pythonic,
        .begins = {"<|tool_call_start|>"},
        .fillers = {"<|tool_call_end|>"},
        .end = "<|tool_call_end|>"}},
      {{"<start_function_call>"},
       {.form = CallForm::gemma, .begins = {"<start_function_call>"}, .end = "<end_function_call>"}},
      {{"<|tool_call>"}, {.form = CallForm::gemma, .begins = {"<|tool_call>"}, .end = "<tool_call|>"}},
      // Granite has used both signs, Phi-4-mini the first.
      {{"<|tool_call|>", "<|start_of_role|>"},
       {.form = CallForm::tagged,
        .begins = {"<|tool_call|>", "<tool_call>"},
        .fillers = {"<|/tool_call|>", "</tool_call>"},
        .end = "</tool_call>"}},
      {{"<seed:tool_call>"},
       {.form = CallForm::tagged,
        .begins = {"<seed:tool_call>"},
        .fillers = {"</seed:tool_call>"},
        .heads = {"<function="},
        .end = "</seed:tool_call>"}},
      {{"<minimax:tool_call>"},
       {.form = CallForm::tagged,
        .tags = &kInvocations,
        .begins = {"<minimax:tool_call>"},
        .fillers = {"</minimax:tool_call>"},
        .heads = {"<invoke name=\""},
        .end = "</minimax:tool_call>"}},
      {{"｜DSML｜tool_calls"}, dsml_calls("tool_calls")},
      {{"｜DSML｜"}, dsml_calls("function_calls")},
      {{":opensource"}, hunyuan_calls(kOpenSourceKeys, ":opensource")},
      {{"<tool_sep>"}, hunyuan_calls(kSeparatedKeys, "")},
      {{"<longcat_tool_call>"},
       {.form = CallForm::tagged,
        .tags = &kLongCatKeys,
        .begins = {"<longcat_tool_call>"},
        .fillers = {"</longcat_tool_call>"},
        .end = "</longcat_tool_call>"}},
      // Olmo 3's.
      {{"<function_calls>"},
       {.form = CallForm::pythonic,
        .begins = {"<function_calls>"},
        .fillers = {"</function_calls>"},
        .end = "</function_calls>"}},
      {{"<|START_ACTION|>"}, {.begins = {"<|START_ACTION|>"}, .fillers = {"<|END_ACTION|>"}}},
      {{"<|tools_prefix|>"},
       {.form = CallForm::keyed,
        .begins = {"<|tools_prefix|>"},
        .fillers = {"<|tools_suffix|>", "<|inner_suffix|>"},
        .may_end_thinking = true}},
      {{"<tool_call>"},
       {.form = CallForm::tagged,
        .begins = {"<tool_call>"},
        .fillers = {"</tool_call>"},
        .heads = {"<function=", "<arg_key>"},
        .end = "</tool_call>"}},
      // Hunyuan's and Jamba's, in a list, and MiniMax-M1's, in lines.
      {{"<tool_calls>"}, {.begins = {"<tool_calls>"}, .fillers = {"</tool_calls>"}, .heads = {"{\"name\""}}},
      {{"<|python_tag|>"}, {.begins = {"<|python_tag|>"}, .fillers = {";", ","}, .may_open_answer = true}},
      {{"[gMASK]"}, {.form = CallForm::glm, .may_open_answer = true}},
  };
  return kFamilies;
}

const CallNotation& json_calls() {
  static const CallNotation kJson = {.begins = {"```json", "<tool_call>"},
                                     .fillers = {"```", "</tool_call>", ";", ","},
                                     .may_open_answer = true};
  return kJson;
}

const CallNotation& calls_of(std::string_view source) {
  const auto found = std::ranges::find_if(families(), [&](const TemplateFamily& family) {
    return std::ranges::any_of(family.signs,
                               [&](std::string_view sign) { return source.find(sign) != source.npos; });
  });
  return found == families().end() ? json_calls() : found->calls;
}

ThinkingMarkers thinking_of(std::string_view source) {
  static const std::array<ThinkingMarkers, 8> kMarkers = {{{"<think>", "</think>"},
                                                           {"<think:opensource>", "</think:opensource>"},
                                                           {"[THINK]", "[/THINK]"},
                                                           {"<seed:think>", "</seed:think>"},
                                                           {"<|START_THINKING|>", "<|END_THINKING|>"},
                                                           {"<|thought_start|>", "<|thought_end|>"},
                                                           {"<|inner_prefix|>", "<|inner_suffix|>"},
                                                           {"<|channel>thought", "<channel|>"}}};
  for (const ThinkingMarkers& markers : kMarkers) {
    if (source.find(markers.end) != source.npos) return markers;
  }
  // Solar Open's. Other families end messages with <|end|>.
  if (source.find("<|think|>") != source.npos) return {"<|think|>", "<|end|><|begin|>assistant"};
  return {};
}

// The markers around text of Cohere's models, Hunyuan-A13B and Solar Open.
std::vector<std::string> wrappers_of(std::string_view source) {
  if (source.find("<|START_RESPONSE|>") != source.npos) return {"<|START_RESPONSE|>", "<|END_RESPONSE|>"};
  if (source.find("<|START_TEXT|>") != source.npos) return {"<|START_TEXT|>", "<|END_TEXT|>"};
  // Other templates ask for such tags as a part of the text.
  const bool is_hunyuan = source.find("<|extra_0|>") != source.npos || source.find("<｜hy_") != source.npos;
  if (is_hunyuan && source.find("<answer>") != source.npos) return {"<answer>", "</answer>"};
  if (source.find("<|tool_call:begin|>") != source.npos)
    return {"<|content|>", "<|begin|>assistant", "<|end|>"};
  return {};
}

}  // namespace

bool ThinkingMarkers::are_begun_by(std::string_view prompt) const {
  if (empty()) return false;
  prompt = without_trailing_blanks(prompt);
  const std::size_t tag = prompt.rfind('<');
  const bool has_section =
      prompt.ends_with('>') && tag != prompt.npos && !prompt.substr(tag).starts_with("</");
  return prompt.ends_with(begin) || (has_section && prompt.substr(0, tag).ends_with(begin));
}

std::vector<std::string> MessageSyntax::markers() const {
  if (has_channels)
    return {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"};
  std::vector<std::string> markers = calls.begins;
  markers.insert(markers.end(), calls.fillers.begin(), calls.fillers.end());
  for (const char* inner : {"[ARGS]", "[CALL_ID]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>",
                            "<|tool_call:name|>", "<|tool_call:args|>", "<escape>", "<|\"|>", "｜DSML｜"})
    markers.emplace_back(inner);
  for (const std::string_view tag : {calls.tags->head_end, calls.tags->key_begin, calls.tags->key_end,
                                     calls.tags->value_begin, calls.tags->value_end}) {
    if (tag.starts_with('<')) markers.emplace_back(tag);
  }
  markers.insert(markers.end(), wrappers.begin(), wrappers.end());
  for (const std::string& marker : {calls.end, thinking.begin, thinking.end, std::string("<|channel>")}) {
    if (!marker.empty()) markers.push_back(marker);
  }
  return markers;
}

CallNotation also_as_json(CallNotation notation) {
  const auto add = [](const std::vector<std::string>& from, std::vector<std::string>& to) {
    for (const std::string& text : from) {
      if (std::ranges::find(to, text) == to.end()) to.push_back(text);
    }
  };
  add(json_calls().begins, notation.begins);
  add(json_calls().fillers, notation.fillers);
  notation.may_open_answer = true;
  return notation;
}

MessageSyntax syntax_of_template(std::string_view source) {
  const bool has_channels = source.find("<|channel|>") != source.npos;
  if (has_channels) return {.has_channels = true, .thinking = {"<|channel|>analysis<|message|>", "<|end|>"}};
  return {.thinking = thinking_of(source), .calls = calls_of(source), .wrappers = wrappers_of(source)};
}

}  // namespace tp
