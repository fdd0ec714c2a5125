// Fixtures as parameters of GoogleTest.
#pragma once

#include <algorithm>
#include <string>

namespace tp::reference {

struct NameOfFixture {
  template <class Info>
  std::string operator()(const Info& info) const {
    std::string name;
    if constexpr (requires { info.param.name; })
      name = info.param.name;
    else
      name = info.param;
    std::ranges::replace(name, '-', '_');
    return name;
  }
};

// Names a test by its parameter, a fixture or the name of one. Tests have '_' for '-'.
inline constexpr NameOfFixture name_of_fixture{};

}  // namespace tp::reference
