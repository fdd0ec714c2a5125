# Creates three files that define the same names, and expects check_definitions.awk to report exactly the names that break the rule.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})
set(shared [=[
class Forward;
using Text = int;
constexpr int kOwnOfEachFile = 1;
static int own_of_each_file() { return 1; }
int declared(int value);
template void explicitly<int>(int);
namespace {
struct Hidden {
  int a;
};
inline int hidden() { return 1; }
}  // namespace
]=])
file(WRITE ${SCRATCH}/first.h "#pragma once\nnamespace tp {\n${shared}" [=[
struct Times {
  double seconds = 0.0;
};
enum class Color : int { red };
template <class T, std::enable_if_t<true>>
class Box final : public Base<T> {
 public:
  int a;
};
constexpr Entry kTable[] = {
    {1, 2}};
inline constexpr int kMax = 1;
inline int twice(int a, const Text& = {}) {
  return a;
}
inline int overloaded(int a) { return a; }
template <class T>
T of_any(T value) {
  return value;
}
int Times::member() const { return 1; }
bool operator==(const Times& a, const Times& b) { return true; }

}  // namespace tp
namespace tp::inner {

struct InOneNamespace {};

}  // namespace tp::inner
]=])
file(WRITE ${SCRATCH}/second.cc "namespace tp {\n${shared}" [=[
class Times {  // another class
  int steps;
};
enum class Color { red, green };
#define STRUCT \
struct NotADefinition {
template <class T>
struct Box {};
inline constexpr int kMax = 2;
inline int twice(int b, const Text& text) { return 2 * b; }
inline int overloaded(double a) { return 1; }
template <class T>
T of_any(T other) {
  return other;
}
int Times::member() const {
  return 2;
}
bool operator==(const Times& one, const Times& other) { return false; }
struct InOneNamespace {};
namespace inner {
struct InTwoFiles {};
}  // namespace inner

}  // namespace tp
]=])
file(WRITE ${SCRATCH}/third.cc [=[
namespace tp::inner {
struct InTwoFiles {};
struct Times {};
}  // namespace tp::inner
struct Times {};
]=])
execute_process(COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/check_definitions.awk first.h second.cc third.cc
                WORKING_DIRECTORY ${SCRATCH} RESULT_VARIABLE status OUTPUT_VARIABLE text)
set(expected
    "defines the class tp::Times,"
    "defines the class tp::Color,"
    "defines the class tp::Box,"
    "defines the variable tp::kMax,"
    "defines the function tp::twice(int, const Text&),"
    "defines the function tp::of_any(T),"
    "defines the function tp::Times::member() const,"
    "defines the function tp::operator==(const Times&, const Times&),"
    "third.cc:2: defines the class tp::inner::InTwoFiles,")
foreach(violation IN LISTS expected)
  string(FIND "${text}" "${violation}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "not detected: ${violation}\nin:\n${text}")
  endif()
endforeach()
string(REGEX MATCHALL "defines the" found "${text}")
list(LENGTH found found_count)
list(LENGTH expected expected_count)
if(NOT found_count EQUAL expected_count OR status EQUAL 0)
  message(FATAL_ERROR "expected ${expected_count} violations and status 1, found status ${status} and:\n${text}")
endif()
