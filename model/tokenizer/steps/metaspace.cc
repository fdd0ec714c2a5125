#include "model/tokenizer/steps/metaspace.h"

#include "model/tokenizer/steps/rewrite.h"

#include <nlohmann/json.hpp>

namespace tp {

PrependScheme prepend_scheme_from_json(const JsonNode& json) {
  const std::optional<JsonNode> scheme = json.find("prepend_scheme");
  if (!scheme)
    return json.boolean_or("add_prefix_space", true) ? PrependScheme::always : PrependScheme::never;
  if (scheme->string() == "always") return PrependScheme::always;
  if (scheme->string() == "first") return PrependScheme::first;
  if (scheme->string() == "never") return PrependScheme::never;
  scheme->fail_type("'always', 'first' or 'never'");
}

Metaspace::Metaspace(std::string mark, PrependScheme scheme, bool split)
    : mark_(std::move(mark)), scheme_(scheme) {
  if (split) words_.emplace(Regex::literal(mark_), SplitBehavior::merged_with_next, false);
}

void Metaspace::operator()(PreTokens& tokens) const {
  rewrite_pieces(tokens, [&](std::string_view piece, bool is_first, std::string& out) {
    const bool may_prepend =
        scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && is_first);
    if (may_prepend && !piece.starts_with(' ') && !piece.starts_with(mark_)) out.append(mark_);
    for (const char byte : piece) {
      if (byte == ' ')
        out.append(mark_);
      else
        out.push_back(byte);
    }
  });
  if (words_) (*words_)(tokens);
}

}  // namespace tp
