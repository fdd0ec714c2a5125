// Readers of calls in the notations of model families, byte by byte.
#pragma once

#include "runtime/tools/json_scanner.h"
#include "runtime/tools/message.h"
#include "runtime/tools/tool_set.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

class CallReader {
 public:
  enum class State : std::uint8_t {
    reads,
    ended,    // what follows is no part of the calls
    invalid,  // this is none; a call that has begun is not complete
  };

  virtual ~CallReader() = default;

  // Reads the next byte, and adds what it completes to `pieces`.
  virtual State push(char byte, MessagePieces& pieces) = 0;
  // Whether a call has begun and is not complete.
  virtual bool is_in_call() const = 0;
};

// A JSON object, or a list of them: {"name": "f", "arguments": {...}}, whose members may be in an object
// `function`, and whose arguments may be called `parameters` and be a text. If `is_strict`, an object with
// other members than these, `id` and `type` is no call. The tools must outlive the reader.
std::unique_ptr<CallReader> make_json_reader(const ToolSet& tools, bool is_strict);

// A header, from which `name_in` takes the tool's name, and a JSON object with the arguments.
using NameIn = std::string_view (*)(std::string_view header);
std::unique_ptr<CallReader> make_headed_reader(const ToolSet& tools, NameIn name_in);

// A notation whose arguments are not JSON and have to be converted: `prefix`, the tool's name, the arguments.
struct ConvertedNotation {
  std::string_view prefix;
  // The call that a complete text is, if it is one.
  std::optional<ToolCall> (*convert)(std::string_view text, const ToolSet& tools);
};

// NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> ...
extern const ConvertedNotation kKeysAndValues;
// <function=NAME> <parameter=KEY> VALUE </parameter> ... </function>
extern const ConvertedNotation kParameters;
// call:NAME{key:<escape>text<escape>,other:[1,2]}, or with <|"|> for <escape>.
extern const ConvertedNotation kEscaped;

// Reads one call to its `end`.
std::unique_ptr<CallReader> make_collecting_reader(const ToolSet& tools, std::string end,
                                                   const ConvertedNotation& notation);

}  // namespace tp
