#pragma once

#include "model/tokenizer/steps/normalizer.h"
#include "tp/marked_text.h"

#include <string>

namespace tp {

// `normal`, which is normalizer(text.text()), with the marks of the text that its parts come from. Where the
// normalizer joins characters across a border of input, all of it is input.
MarkedText with_marks_of(const MarkedText& text, std::string normal, const Normalizer& normalizer);

}  // namespace tp
