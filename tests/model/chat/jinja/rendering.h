// Templates rendered for tests.
#pragma once

#include "model/chat/jinja/template.h"
#include "tp/error.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::jinja {

using Json = nlohmann::ordered_json;

inline Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// Returns the text, or "error: " and the message.
inline std::string rendered(const std::string& source, const Json& variables = Json::object()) {
  try {
    return Template(source, "t").render(variables, {.now = "26 Jul 2024"}).text();
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

}  // namespace tp::jinja
