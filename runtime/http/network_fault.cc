#include "runtime/http/network_fault.h"

#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>

namespace tp {

std::string network_fault(const boost::system::error_code& error) {
  namespace net = boost::asio::error;
  namespace http = boost::beast::http;
  if (error == net::host_not_found || error == net::no_data) return "no machine has this name";
  if (error == net::host_not_found_try_again) return "the name service did not answer";
  if (error == net::no_recovery) return "the name service failed";
  if (error == net::service_not_found) return "no service has this port";
  if (error == net::eof || error == http::error::end_of_stream || error == http::error::partial_message)
    return "the other side closed the connection before the end of its message";
  if (error == net::operation_aborted) return "the call was cancelled";
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return "the headers are too large";
  if (error == http::error::body_limit) return "the body is too large";
  if (error == http::error::bad_method || error == http::error::bad_target ||
      error == http::error::bad_version || error == http::error::bad_line_ending)
    return "its first line is not one of HTTP/1.1";
  if (error == http::error::bad_field || error == http::error::bad_value ||
      error == http::error::bad_obs_fold)
    return "a header is not valid";
  if (error == http::error::bad_content_length) return "`Content-Length` is not one number";
  if (error == http::error::bad_transfer_encoding) return "`Transfer-Encoding` is not valid";
  if (error == http::error::bad_chunk || error == http::error::bad_chunk_extension)
    return "a chunk of the body is not valid";
  const bool is_of_system = error.category() == boost::system::system_category() ||
                            error.category() == boost::system::generic_category();
  return is_of_system ? error.message() : "the message is not valid HTTP/1.1";
}

}  // namespace tp
