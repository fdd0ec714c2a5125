// The global functions of templates.
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/printing.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

Value range(Arguments& arguments, Heap& heap) {
  constexpr std::int64_t kLongest = 100'000;  // limit of Jinja's sandbox
  const std::int64_t first = integer_of(arguments.at(0, "start"), "range's start");
  const Value* second = arguments.find(1, "stop");
  const Value* third = arguments.find(2, "step");
  const std::int64_t start = second == nullptr ? 0 : first;
  const std::int64_t stop = second == nullptr ? first : integer_of(*second, "range's stop");
  const std::int64_t step = third == nullptr ? 1 : integer_of(*third, "range's step");
  if (step == 0) throw EvaluationError("range needs a step other than 0");
  std::vector<Value> numbers;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<std::int64_t>(numbers.size()) == kLongest)
      throw EvaluationError(fmt::format("range gives at most {} numbers", kLongest));
    numbers.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return heap.make_list(std::move(numbers), List::Kind::range);
}

Value make_namespace(Arguments& arguments, Heap& heap) {
  Namespace* names = heap.make_namespace();
  if (const Value* given = arguments.find(0, "dict")) {
    if (given->dict() == nullptr) throw EvaluationError("namespace needs a dict, or names with values");
    for (const auto& [key, value] : given->dict()->members)
      names->members[require_text(key, "a name")] = value;
  }
  for (const auto& [name, value] : arguments.keywords)
    names->members[name] = *arguments.find(arguments.positional.size(), name);
  return names;
}

Value make_dict(Arguments& arguments, Heap& heap) {
  std::vector<std::pair<Value, Value>> members;
  for (const auto& [name, value] : arguments.keywords)
    members.emplace_back(name, *arguments.find(arguments.positional.size(), name));
  return heap.make_dict(std::move(members));
}

Value raise_exception(Arguments& arguments, Heap& heap) {
  throw EvaluationError(fmt::format("the chat template refuses this: {}",
                                    printed(arguments.at(0, "message"), heap.budget()).text()));
}

Value strftime_now(Arguments& arguments, const std::optional<std::string>& now) {
  const MarkedText& given = marked_text_of(arguments.at(0, "format"), "the format");
  if (now) return *now;
  const std::string& format = given.text();
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  std::string text(format.size() * 8 + 256, '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &local));
  return given.has_input() ? MarkedText::input(std::move(text)) : MarkedText(std::move(text));
}

}  // namespace

std::map<std::string, Value, std::less<>> make_globals(const std::optional<std::string>& now, Heap& heap) {
  return {{"dict", heap.make_function([&heap](Arguments& arguments) { return make_dict(arguments, heap); })},
          {"namespace",
           heap.make_function([&heap](Arguments& arguments) { return make_namespace(arguments, heap); })},
          {"raise_exception",
           heap.make_function([&heap](Arguments& arguments) { return raise_exception(arguments, heap); })},
          {"range", heap.make_function([&heap](Arguments& arguments) { return range(arguments, heap); })},
          {"strftime_now",
           heap.make_function([now](Arguments& arguments) { return strftime_now(arguments, now); })}};
}

}  // namespace tp::jinja
