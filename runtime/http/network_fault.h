#pragma once

#include <string>

namespace boost::system {
class error_code;
}

namespace tp {

// The reason of a failed network call in plain words. Errors of the operating system keep its words ("Address
// already in use"); errors of Asio and Beast get ours.
std::string network_fault(const boost::system::error_code& error);

}  // namespace tp
