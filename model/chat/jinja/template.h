// A chat template: the Jinja program in a checkpoint that turns messages into a prompt.
#pragma once

#include "tp/error.h"
#include "tp/marked_text.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

namespace tp::jinja {

struct Statement;

struct RenderOptions {
  std::optional<std::string> now{};  // what strftime_now gives; without it, the local time
  // Variables that are not input, such as the model's bos_token: an object, or null for none.
  const nlohmann::ordered_json* own = nullptr;
};

// A template refuses its input, or cannot go on with it. The message names the template's file.
class RenderError : public RequestError {
 public:
  RenderError(const std::string& message, std::string reason)
      : RequestError(message), reason_(std::move(reason)) {}
  // The message without the file.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// A template in the part of Jinja2 that Hugging Face's chat templates use, with the same results as there:
// statements if, for (with loop, filters, recursion, break, continue), set, macro, call, filter, with, raw,
// generation; all operators; Python's methods of texts, lists and dicts; trim_blocks and lstrip_blocks.
// model/chat/README.md says what is left out. What a template may do is bounded: an endless one is an error.
class Template {
 public:
  // Throws CheckpointError that says NAME:LINE:COLUMN and what is wrong there.
  Template(std::string_view source, std::string name);

  // `input` is an object: what the template knows by name, besides and before `options.own`. In the result
  // the texts that stem from it are input, whatever the template did with them, apart from roles (see
  // json_values.h). Numbers, and what the template itself wrote, are not. Throws RenderError, with the place
  // too. May be called by several threads.
  MarkedText render(const nlohmann::ordered_json& input, const RenderOptions& options = {}) const;

 private:
  std::string name_;
  std::shared_ptr<const std::vector<Statement>> body_;
};

}  // namespace tp::jinja
