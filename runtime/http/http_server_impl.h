// The inside of the HTTP server. Included by http_server.cc and http_call.cc only: Asio is slow to compile.
#pragma once

#include "runtime/http/http_server.h"
#include "runtime/http/http_session.h"

#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace tp {

class HttpServer::Impl {
 public:
  explicit Impl(HttpOptions options);
  ~Impl();

  void accept(boost::asio::ip::tcp::acceptor& acceptor);
  void welcome(boost::asio::ip::tcp::socket socket);
  void close_all();
  bool is_flushed();

  HttpOptions options_;
  // No concurrency hint of one thread: tasks that the thread posts to itself could then be overtaken by tasks
  // that other threads post later.
  std::shared_ptr<boost::asio::io_context> io_ = std::make_shared<boost::asio::io_context>();
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_->get_executor()};
  std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
  // Only the server's thread uses the members below.
  std::shared_ptr<HttpLoad> load_ = std::make_shared<HttpLoad>();
  std::unordered_map<HttpSession*, std::weak_ptr<HttpSession>> sessions_;
  std::thread thread_;
};

}  // namespace tp
