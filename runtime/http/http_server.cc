#include "runtime/http/http_server.h"

#include "runtime/http/http_server_impl.h"
#include "runtime/http/http_session.h"
#include "runtime/http/network_fault.h"
#include "tp/internal/require.h"

#include <future>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unistd.h>

namespace tp {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

// `is_only`: the host has no other addresses, so "::" stands for all IPv4 and IPv6 addresses.
void listen(Tcp::acceptor& acceptor, const Tcp::endpoint& endpoint, bool is_only) {
  acceptor.open(endpoint.protocol());
  acceptor.set_option(Tcp::acceptor::reuse_address(true));
  if (endpoint.address().is_v6())
    acceptor.set_option(asio::ip::v6_only(!is_only || !endpoint.address().is_unspecified()));
  acceptor.bind(endpoint);
  acceptor.listen();
}

// Opens one acceptor for each address of the host, all with the same port.
std::vector<Tcp::acceptor> listen_at(asio::io_context& io, const std::string& host, std::uint16_t port) {
  std::vector<Tcp::acceptor> acceptors;
  try {
    Tcp::resolver resolver(io);
    const auto entries = resolver.resolve(host, std::to_string(port), Tcp::resolver::passive);
    for (const auto& entry : entries) {
      Tcp::endpoint endpoint = entry.endpoint();
      if (!acceptors.empty()) endpoint.port(acceptors.front().local_endpoint().port());
      listen(acceptors.emplace_back(io), endpoint, entries.size() == 1);
    }
  } catch (const boost::system::system_error& error) {
    // A name may have addresses of a protocol that this machine does not support.
    if (!acceptors.empty() && !acceptors.back().is_open()) acceptors.pop_back();
    const bool others_work = !acceptors.empty() && error.code() == asio::error::address_family_not_supported;
    require<ConfigError>(
        others_work,
        "cannot listen at `host` {} with `port` {}: {}; use an address of this machine and a free port", host,
        port, network_fault(error.code()));
  }
  return acceptors;
}

}  // namespace

HttpServer::Impl::Impl(HttpOptions options)
    : options_(std::move(options)), acceptors_(listen_at(*io_, options_.host, options_.port)) {
  for (Tcp::acceptor& acceptor : acceptors_) accept(acceptor);
  thread_ = std::thread([io = io_] { io->run(); });
}

HttpServer::Impl::~Impl() {
  asio::post(*io_, [this] { close_all(); });
  work_.reset();
  thread_.join();
}

void HttpServer::Impl::accept(Tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](const error_code& error, Tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      welcome(std::move(socket));
      return accept(acceptor);
    }
    // Probably out of descriptors: the connection stays in the queue until other connections have ended.
    auto timer = std::make_shared<asio::steady_timer>(*io_, std::chrono::milliseconds(100));
    timer->async_wait([this, timer, &acceptor](const error_code&) {
      if (acceptor.is_open()) accept(acceptor);
    });
  });
}

void HttpServer::Impl::welcome(Tcp::socket socket) {
  const bool is_full = load_->connections >= options_.limits.connections;
  const auto session = std::make_shared<HttpSession>(std::move(socket), io_, options_, load_);
  std::erase_if(sessions_, [](const auto& entry) { return entry.second.expired(); });
  sessions_[session.get()] = session;
  if (is_full) return session->refuse(503, "too many connections; try again later");
  session->run();
}

void HttpServer::Impl::close_all() {
  for (Tcp::acceptor& acceptor : acceptors_) acceptor.close();
  for (const auto& [key, entry] : sessions_) {
    if (const auto session = entry.lock()) session->close();
  }
  // Operations that still wait for a descriptor or a timer are not worth waiting for.
  asio::post(*io_, [this] { io_->stop(); });
}

bool HttpServer::Impl::is_flushed() {
  for (const auto& [key, entry] : sessions_) {
    const auto session = entry.lock();
    if (session && session->is_writing()) return false;
  }
  return true;
}

HttpServer::HttpServer(HttpOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->acceptors_.front().local_endpoint().port(); }

void HttpServer::post(std::function<void()> call) { asio::post(*impl_->io_, std::move(call)); }

void HttpServer::post_after(std::chrono::milliseconds delay, std::function<void()> call) {
  post([io = impl_->io_, delay, call = std::move(call)] {
    auto timer = std::make_shared<asio::steady_timer>(*io, delay);
    timer->async_wait([timer, call](const error_code& error) {
      if (!error) call();
    });
  });
}

void HttpServer::when_readable(int descriptor, std::function<bool()> call) {
  post([io = impl_->io_, descriptor, call = std::move(call)] {
    auto stream = std::make_shared<asio::posix::stream_descriptor>(*io, ::dup(descriptor));
    auto wait = std::make_shared<std::function<void()>>();
    *wait = [stream, call, again = std::weak_ptr(wait)] {
      const auto keep = again.lock();
      stream->async_wait(asio::posix::stream_descriptor::wait_read,
                         [stream, call, keep](const error_code& error) {
                           if (!error && call()) return (*keep)();
                         });
    };
    (*wait)();
  });
}

std::size_t HttpServer::connections() const { return impl_->load_->connections; }
std::size_t HttpServer::open_requests() const { return impl_->load_->requests; }

void HttpServer::flush(std::chrono::milliseconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (std::chrono::steady_clock::now() < end) {
    std::promise<bool> done;
    asio::post(*impl_->io_, [&] { done.set_value(impl_->is_flushed()); });
    if (done.get_future().get()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace tp
