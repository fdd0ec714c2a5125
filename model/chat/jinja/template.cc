#include "model/chat/jinja/template.h"

#include "model/chat/jinja/evaluator.h"
#include "model/chat/jinja/json_values.h"
#include "model/chat/jinja/lexer.h"
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/parser.h"
#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

#include <nlohmann/json.hpp>

namespace tp::jinja {

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  require<CheckpointError>(
      utf8::is_valid(source),
      "{}: cannot read the chat template: expected UTF-8, found other bytes; save it as UTF-8", name_);
  try {
    body_ = std::make_shared<const Body>(parse_template(source));
  } catch (const SyntaxError& error) {
    throw_error<CheckpointError>(
        "{}:{}:{}: cannot read the chat template: {}; correct it, or give another one", name_,
        error.position().line, error.position().column, error.what());
  }
}

MarkedText Template::render(const nlohmann::ordered_json& input, const RenderOptions& options) const {
  Budget budget;
  Heap heap(budget);
  Evaluator evaluator(heap, make_globals(options.now, heap));
  try {
    Names names = input_variables(input, heap);
    if (options.own != nullptr) names.merge(own_variables(*options.own, heap));
    return evaluator.render(*body_, std::move(names));
  } catch (const EvaluationError& error) {
    throw RenderError(
        fmt::format("{}:{}:{}: cannot render the chat template: {}; change the messages or the template",
                    name_, evaluator.position().line, evaluator.position().column, error.what()),
        error.what());
  }
}

}  // namespace tp::jinja
