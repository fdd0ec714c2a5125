#include "runtime/http/network_fault.h"

#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Code = boost::system::error_code;

TEST(NetworkFault, HasNoWordsOfAsioAndBeast) {
  namespace net = boost::asio::error;
  for (const Code& code :
       {make_error_code(net::host_not_found), make_error_code(net::host_not_found_try_again),
        make_error_code(net::no_data), make_error_code(net::no_recovery),
        make_error_code(net::service_not_found), make_error_code(net::eof), make_error_code(net::not_found),
        make_error_code(net::already_open)})
    EXPECT_NE(network_fault(code), code.message());
  for (int value = 1; value <= static_cast<int>(boost::beast::http::error::stale_parser); ++value) {
    const Code code = make_error_code(static_cast<boost::beast::http::error>(value));
    EXPECT_NE(network_fault(code), code.message());
  }
  EXPECT_EQ(network_fault(make_error_code(net::host_not_found)), "no machine has this name");
}

TEST(NetworkFault, KeepsTheWordsOfTheSystem) {
  EXPECT_EQ(network_fault(make_error_code(boost::asio::error::address_in_use)), "Address already in use");
  EXPECT_EQ(network_fault(make_error_code(boost::asio::error::connection_refused)), "Connection refused");
}

}  // namespace
}  // namespace tp::test
