#include "src/engine/rank_address.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr uint32_t kLongestText = 1u << 20;
constexpr int kPauseMs = 50;

struct Place {
  sockaddr_storage address{};
  socklen_t size = 0;
};

Error wrong_address(const std::string& text) {
  return Error(ErrorCode::kUsage,
               "\"" + text + "\" is no address of ranks: unix:/path or host:port is one");
}

/// A name that begins with @ is abstract: no file, gone with its socket.
Place unix_place(const std::string& text) {
  Place out;
  auto* at = reinterpret_cast<sockaddr_un*>(&out.address);
  const std::string path = text.substr(kUnix.size());
  if (path.empty() || path.size() >= sizeof at->sun_path) throw wrong_address(text);
  at->sun_family = AF_UNIX;
  std::memcpy(at->sun_path, path.data(), path.size());
  if (path[0] == '@') at->sun_path[0] = '\0';
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return out;
}

struct HostPort {
  std::string host, port;  // of [::1] without the brackets
};

HostPort host_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) throw wrong_address(text);
  HostPort out{text.substr(0, colon), text.substr(colon + 1)};
  if (out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  return out;
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// `status` is what getaddrinfo says; 0: they were found.
Addresses find_addresses(const HostPort& of, int flags, int& status) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const char* port = of.port.empty() ? nullptr : of.port.c_str();
  status = ::getaddrinfo(of.host.c_str(), port, &hints, &found);
  return {status == 0 ? found : nullptr, ::freeaddrinfo};
}

Place internet_place(const std::string& text) {
  int status = 0;
  const Addresses found = find_addresses(host_port(text), AI_NUMERICHOST, status);
  if (status != 0) throw wrong_address(text);
  Place out;
  std::memcpy(&out.address, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  return out;
}

Place place_of_text(const std::string& text) {
  return text.starts_with(kUnix) ? unix_place(text) : internet_place(text);
}

/// `flags`: besides, of ::socket.
Descriptor stream_socket(int family, int flags = 0) {
  Descriptor out(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!out) throw environment_error("no socket");
  return out;
}

/// Small frames go at once: ranks wait for each other.
void send_at_once(const Descriptor& socket) {
  const int one = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/// Readies a connection; nothing where another user of this machine has the other end.
Descriptor connected(Descriptor socket, int family) {
  if (family != AF_UNIX) {
    send_at_once(socket);
    return socket;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool same = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                    peer.uid == ::geteuid();
  return same ? std::move(socket) : Descriptor();
}

/// Whether a connection waits on that the machine has no room for at the moment. Otherwise, but for
/// EMFILE, who came has gone again.
bool is_shortage(int error) { return error == ENFILE || error == ENOBUFS || error == ENOMEM; }

/// The address of an internet socket's own end; a port below 0: its own.
std::string name_of_socket(const Descriptor& socket, int port) {
  sockaddr_storage place{};
  socklen_t size = sizeof place;
  auto* address = reinterpret_cast<sockaddr*>(&place);
  char host[NI_MAXHOST], service[NI_MAXSERV];
  const bool known = ::getsockname(socket.get(), address, &size) == 0 &&
                     ::getnameinfo(address, size, host, sizeof host, service, sizeof service,
                                   NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  check(known, "a socket has no address");
  const std::string name = address->sa_family == AF_INET6 ? "[" + std::string(host) + "]" : host;
  return name + ":" + (port < 0 ? service : std::to_string(port));
}

bool wait_for(int fd, short events, int timeout_ms) {
  pollfd file{fd, events, 0};
  int n = 0;
  while ((n = ::poll(&file, 1, timeout_ms)) < 0 && errno == EINTR) {
  }
  return n > 0;
}

/// Finishes a connection that was begun without waiting; false where it is not made in time.
bool completes(const Descriptor& socket, int timeout_ms) {
  if (errno != EINPROGRESS || !wait_for(socket.get(), POLLOUT, timeout_ms)) return false;
  int status = 0;
  socklen_t size = sizeof status;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &status, &size) == 0 && status == 0;
}

/// Moves all of `size` bytes by `move`, which takes what is left.
template <class Move>
bool move_all(int fd, short events, size_t size, int timeout_ms, const Move& move) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (size_t done = 0; done < size;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0 || !wait_for(fd, events, static_cast<int>(left.count()))) return false;
    const ssize_t n = move(done, size - done);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool send_all(int fd, const char* data, size_t size, int timeout_ms) {
  return move_all(fd, POLLOUT, size, timeout_ms, [&](size_t at, size_t left) {
    return ::send(fd, data + at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool receive_all(int fd, char* data, size_t size, int timeout_ms) {
  return move_all(fd, POLLIN, size, timeout_ms, [&](size_t at, size_t left) {
    return ::recv(fd, data + at, left, MSG_DONTWAIT);
  });
}

}  // namespace

std::string look_up_host(const std::string& host) {
  int status = 0;
  const Addresses found = find_addresses({host, {}}, 0, status);
  char number[NI_MAXHOST];
  if (status == 0) {
    status = ::getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof number, nullptr, 0,
                           NI_NUMERICHOST);
  }
  if (status == 0) return number;
  throw Error(ErrorCode::kEnvironment,
              "the host " + host + " of rank 0 is not known: " + ::gai_strerror(status));
}

std::string host_of(const std::string& address) {
  return address.starts_with(kUnix) ? std::string() : host_port(address).host;
}

std::string with_host(const std::string& address, const std::string& host) {
  if (address.starts_with(kUnix)) return address;
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]:" : host + ":") + host_port(address).port;
}

RankListener listen_at(const std::string& address) {
  const Place place = place_of_text(address);
  const int family = place.address.ss_family;
  Descriptor socket = stream_socket(family);
  const int one = 1;
  if (family != AF_UNIX) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  }
  const auto* to = reinterpret_cast<const sockaddr*>(&place.address);
  if (::bind(socket.get(), to, place.size) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE || errno == EACCES) return {};
    throw environment_error("no rank can listen at " + address);
  }
  std::string name = family == AF_UNIX ? address : name_of_socket(socket, -1);
  return {std::move(socket), std::move(name)};
}

Descriptor connect_to(const std::string& address, int timeout_ms) {
  const Place place = place_of_text(address);
  Descriptor socket = stream_socket(place.address.ss_family, SOCK_NONBLOCK);
  const auto* to = reinterpret_cast<const sockaddr*>(&place.address);
  if (::connect(socket.get(), to, place.size) != 0 && !completes(socket, timeout_ms)) return {};
  return connected(std::move(socket), place.address.ss_family);
}

Descriptor accept_from(const RankListener& listener, int timeout_ms) {
  if (!wait_for(listener.socket.get(), POLLIN, timeout_ms)) return {};
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  Descriptor socket(
      ::accept4(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC));
  if (!socket && errno == EMFILE) throw environment_error("no rank can be let in");
  if (!socket && is_shortage(errno)) ::poll(nullptr, 0, std::min(timeout_ms, kPauseMs));
  return socket ? connected(std::move(socket), address.ss_family) : Descriptor();
}

std::string own_address(const Descriptor& connection, int port) {
  return name_of_socket(connection, port);
}

bool send_text(const Descriptor& socket, const std::string& text, int timeout_ms) {
  const auto size = static_cast<uint32_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += text;
  return send_all(socket.get(), bytes.data(), bytes.size(), timeout_ms);
}

bool receive_text(const Descriptor& socket, std::string& text, int timeout_ms) {
  uint32_t size = 0;
  char* head = reinterpret_cast<char*>(&size);
  if (!receive_all(socket.get(), head, sizeof size, timeout_ms)) return false;
  if (size > kLongestText) return false;
  text.resize(size);
  return receive_all(socket.get(), text.data(), size, timeout_ms);
}

}  // namespace rlreplay::engine
