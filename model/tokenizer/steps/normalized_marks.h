#pragma once

#include "model/tokenizer/steps/normalizer.h"
#include "tp/marked_text.h"

#include <string>

namespace tp {

// Returns `normal`, the result of normalizer(text.text()), with the marks of its source text. If the
// normalizer joins characters across a border of input, the whole result is input.
MarkedText with_marks_of(const MarkedText& text, std::string normal, const Normalizer& normalizer);

}  // namespace tp
