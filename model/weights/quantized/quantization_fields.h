// Knows the fields of quantization_config of every method, and what the program does with each.
#pragma once

#include "model/weights/quantized/quantization_config.h"

#include <string>
#include <string_view>

namespace tp {

// Throws ConfigError, naming the field, if a field or its value may change the model's numbers and the
// program does not honour it. Unknown fields are refused, too, and so is an unknown method.
void check_quantization_fields(const QuantizationConfig& config);

// Throws ConfigError: what `field` must be, what was found, and what to do.
[[noreturn]] void refuse_field(const QuantizationConfig& config, std::string_view field,
                               std::string_view expected, std::string_view found);

}  // namespace tp
