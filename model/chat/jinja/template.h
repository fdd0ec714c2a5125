// A chat template: the Jinja program in a checkpoint that converts messages to a prompt.
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
  std::optional<std::string> now{};  // result of strftime_now; default: the local time
  // Variables that are not input, such as the model's bos_token: an object, or null for no variables.
  const nlohmann::ordered_json* own = nullptr;
};

// A template refuses its input, or fails with it. The message names the template's file.
class RenderError : public RequestError {
 public:
  RenderError(const std::string& message, std::string reason)
      : RequestError(message), reason_(std::move(reason)) {}
  // The message without the file.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

// A template in the part of Jinja2 that Hugging Face's chat templates use, with equal results. It supports
// the statements if, for (with loop, filters, recursion, break, continue), set, macro, call, filter, with,
// raw and generation; all operators; Python's methods of texts, lists and dicts; trim_blocks and
// lstrip_blocks. model/chat/README.md lists omissions. The work of a template is limited: an endless template
// is an error.
class Template {
 public:
  // Throws CheckpointError with NAME:LINE:COLUMN and the reason.
  Template(std::string_view source, std::string name);

  // `input`: an object with the template's variables, which override `options.own`. In the result, all texts
  // from `input` are input, however the template changed them, except roles (see json_values.h). Numbers and
  // the template's own texts are not input. Throws RenderError, which includes the position. Thread-safe.
  MarkedText render(const nlohmann::ordered_json& input, const RenderOptions& options = {}) const;

 private:
  std::string name_;
  std::shared_ptr<const std::vector<Statement>> body_;
};

}  // namespace tp::jinja
