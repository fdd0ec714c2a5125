#pragma once

#include <cstdlib>
#include <string>

namespace tp::test {

// Sets an environment variable for this process and its children until the end of the scope.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~EnvironmentVariable() { ::unsetenv(name_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
};

}  // namespace tp::test
