// The body of a request, as a string. Included by http_session.h only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <boost/beast/http/string_body.hpp>
#include <boost/optional.hpp>
#include <boost/system/error_code.hpp>

namespace tp {

// Differs from Beast's body only if there is no memory for it. Beast's throws on the server's thread, which
// would end the server. With this body, reading ends with the error not_enough_memory.
struct RequestBody : boost::beast::http::string_body {
  class reader : public boost::beast::http::string_body::reader {
   public:
    using Base = boost::beast::http::string_body::reader;
    using Error = boost::system::error_code;
    using Base::Base;

    void init(const boost::optional<std::uint64_t>& length, Error& error) {
      try {
        Base::init(length, error);
      } catch (const std::bad_alloc&) {
        error = out_of_memory();
      }
    }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, Error& error) {
      try {
        return Base::put(buffers, error);
      } catch (const std::bad_alloc&) {
        error = out_of_memory();
        return 0;
      }
    }

   private:
    static Error out_of_memory() { return make_error_code(boost::system::errc::not_enough_memory); }
  };
};

}  // namespace tp
