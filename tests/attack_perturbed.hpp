// Other executions of an algorithm: numbers whose functions err as much as a contract allows, and
// teams that add in any order.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "bounds/any_order.hpp"
#include "bounds/tracked_functions.hpp"
#include "ops/number.hpp"
#include "ops/team.hpp"
#include "reference/mpfr.hpp"

namespace opbound {
namespace attack {

using Random = std::mt19937_64;

/// A whole number in [low, high].
inline int whole(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}
inline bool chance(Random& random, int one_in) {
  return random() % static_cast<std::uint64_t>(one_in) == 0;
}
/// Uniform in [0, 1).
inline double share(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }
template <class A>
const auto& pick(Random& random, const A& from_these) {
  return from_these[random() % std::size(from_these)];
}

/// How far functions are moved from the correctly rounded result.
struct Nudge {
  enum class Way { none, up, down, random };
  FunctionErrors errors{};
  Way way = Way::none;
  Random random{1};

  /// Ulp to move by: the whole of what is declared, or a random part of it.
  double step(Function f) {
    const int k = static_cast<int>(errors.of(f));
    switch (way) {
      case Way::up:
        return k;
      case Way::down:
        return -k;
      case Way::random:
        return whole(random, -k, k);
      default:
        return 0;
    }
  }
};

inline thread_local Nudge nudge;

}  // namespace attack

/// T with operations correctly rounded and functions moved by `nudge`.
template <class T>
struct Perturbed {
  T value{};

  friend Perturbed operator+(Perturbed a, Perturbed b) { return {a.value + b.value}; }
  friend Perturbed operator-(Perturbed a, Perturbed b) { return {a.value - b.value}; }
  friend Perturbed operator*(Perturbed a, Perturbed b) { return {a.value * b.value}; }
  friend Perturbed operator/(Perturbed a, Perturbed b) { return {a.value / b.value}; }
  friend Perturbed operator-(Perturbed a) { return {-a.value}; }
};

template <class T>
double to_double(Perturbed<T> x) {
  return opbound::to_double(x.value);
}
template <class T>
Perturbed<T> fma(Perturbed<T> a, Perturbed<T> b, Perturbed<T> c) {
  return {fma(a.value, b.value, c.value)};
}
template <class T>
Perturbed<T> sqrt(Perturbed<T> a) {
  return {sqrt(a.value)};
}
template <class T>
Perturbed<T> abs(Perturbed<T> a) {
  return {abs(a.value)};
}
template <class T>
Perturbed<T> max(Perturbed<T> a, Perturbed<T> b) {
  return {max(a.value, b.value)};
}
template <class T>
Perturbed<T> min(Perturbed<T> a, Perturbed<T> b) {
  return {min(a.value, b.value)};
}
template <class T>
Perturbed<T> pivot(Perturbed<T> a) {
  return a;
}
template <class T>
Perturbed<T> stored_in(const Format& f, Perturbed<T> a) {
  return {stored_in(f, a.value)};
}
template <class T>
Perturbed<T> stored_stochastically_in(const Format& f, Perturbed<T> a, std::uint32_t random) {
  return {stored_stochastically_in(f, a.value, random)};
}
template <class T>
bool is_negative(Perturbed<T> a) {
  return is_negative(a.value);
}

namespace attack {

/// What vanishes stays within 2k + 1 times its exact value, as FunctionErrors says.
inline double moved_from_0(Function f, double x, double step, const Format& format) {
  const double exact = f == Function::exp    ? std::exp(x)
                       : f == Function::exp2 ? std::exp2(x)
                       : f == Function::erfc ? std::erfc(x)
                                             : detail::infinite;
  const double most = std::floor((2 * std::fabs(step) + 1) * exact / ulp(format, 0));
  return std::copysign(std::fmin(std::fabs(step), most), step) * ulp(format, 0);
}

/// The correctly rounded function value, moved. Where the value is exact for every sensible
/// implementation (exp(0) = 1, log(1) = 0, f(0) = 0, infinities), nothing moves: so says
/// FunctionErrors.
template <class T>
Perturbed<T> moved(Function f, double argument, T correct) {
  const double v = opbound::to_double(correct);
  const bool is_exact = argument == 0 || (f == Function::log && argument == 1) ||
                        !detail::is_finite(argument) || !detail::is_finite(v);
  const double step = attack::nudge.step(f);
  if (is_exact || step == 0) return {correct};
  const Format& format = Facts<T>::format;
  if (v == 0) return {from<T>(moved_from_0(f, argument, step, format))};
  return {from<T>(v + step * ulp(format, v))};
}

/// double's own functions are not correctly rounded, so MPFR gives the value to move.
inline double correctly_rounded(Mpfr (*f)(const Mpfr&), double x) {
  const PrecisionScope scope(120);
  return to_double(f(from<Mpfr>(x)));
}

}  // namespace attack

template <class T>
struct Conversion<Perturbed<T>> {
  static Perturbed<T> from(double x) { return {opbound::from<T>(x)}; }
  static Perturbed<T> from(Real r) { return {constant<T>(r)}; }
};

#define OPBOUND_PERTURBED(f)                                                              \
  template <class T>                                                                      \
  Perturbed<T> f(Perturbed<T> a) {                                                        \
    const double x = opbound::to_double(a.value);                                         \
    if constexpr (std::is_same_v<T, double>) {                                            \
      return attack::moved<T>(Function::f, x, attack::correctly_rounded(&opbound::f, x)); \
    } else {                                                                              \
      return attack::moved<T>(Function::f, x, f(a.value));                                \
    }                                                                                     \
  }
OPBOUND_PERTURBED(exp)
OPBOUND_PERTURBED(exp2)
OPBOUND_PERTURBED(expm1)
OPBOUND_PERTURBED(log)
OPBOUND_PERTURBED(log1p)
OPBOUND_PERTURBED(tanh)
OPBOUND_PERTURBED(erf)
OPBOUND_PERTURBED(erfc)
OPBOUND_PERTURBED(sin)
OPBOUND_PERTURBED(cos)
OPBOUND_PERTURBED(rsqrt)
#undef OPBOUND_PERTURBED

namespace attack {

/// A team that adds in a new order at every call: balanced, chains from either end, shuffled,
/// or any pair at any time.
struct RandomTreeTeam : OneByOne {
  Random* random;

  RandomTreeTeam(Random* of) : random(of) {}

  template <class F>
  auto sum(std::int64_t n, F term) const {
    return reduce<Sum>(n, term);
  }
  template <class Kind, class F>
  auto reduce(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    std::vector<T> terms;
    for (std::int64_t i = 0; i < n; ++i) terms.push_back(term(i));
    if (terms.empty()) return Kind::template empty<T>();
    if (chance(*random, 2)) std::shuffle(terms.begin(), terms.end(), *random);
    switch (whole(*random, 0, 3)) {
      case 0:  // a chain
        for (std::size_t i = 1; i < terms.size(); ++i) terms[0] = Kind::combine(terms[0], terms[i]);
        return terms[0];
      case 1:  // a chain from the end
        for (std::size_t i = terms.size() - 1; i-- > 0;)
          terms[i] = Kind::combine(terms[i], terms[i + 1]);
        return terms[0];
      case 2:  // balanced
        for (std::size_t s = 1; s < terms.size(); s *= 2)
          for (std::size_t i = 0; i + s < terms.size(); i += 2 * s)
            terms[i] = Kind::combine(terms[i], terms[i + s]);
        return terms[0];
      default:  // any two
        while (terms.size() > 1) {
          const auto i = (*random)() % terms.size();
          const T last = terms.back();
          terms.pop_back();
          if (i < terms.size()) {
            terms[i] = Kind::combine(terms[i], last);
          } else {
            terms.push_back(last);
          }
        }
        return terms[0];
    }
  }
  template <class F>
  auto max(std::int64_t n, F term) const {
    return HostTeam<4>{}.max(n, term);
  }
  template <class F>
  bool any(std::int64_t n, F predicate) const {
    return HostTeam<4>{}.any(n, predicate);
  }
  template <class F>
  void map(std::int64_t n, F action) const {
    for (std::int64_t i = n; i-- > 0;) action(i);
  }
  void barrier() const {}
  template <class F>
  auto serial_sum(std::int64_t n, F term) const {
    return sum(n, term);
  }
  /// Fused or not: either keeps the contract.
  template <class A, class B>
  auto dot(std::int64_t n, A a, B b) const {
    if (chance(*random, 2)) return LaneSums{}.dot(n, a, b);
    return sum(n, [&](std::int64_t i) { return a(i) * b(i); });
  }
};

/// Adds along a tree; other lengths, and a node's children, in any order.
struct AlongTree : OneByOne {
  const SumTree* tree;
  Random* random;

  AlongTree(const SumTree* along, Random* of) : tree(along), random(of) {}

  template <class F>
  auto sum(std::int64_t n, F term) const {
    using T = decltype(term(std::int64_t{0}));
    const RandomTreeTeam any{random};
    if (tree->leaves != n || n < 2) return any.sum(n, term);
    std::vector<T> results;
    for (const auto& children : tree->nodes) {
      const auto child = [&](std::int64_t k) {
        const std::int64_t c = children[static_cast<std::size_t>(k)];
        return c < n ? term(c) : results[static_cast<std::size_t>(c - n)];
      };
      results.push_back(any.sum(static_cast<std::int64_t>(children.size()), child));
    }
    return results.back();
  }
  template <class Kind, class F>
  auto reduce(std::int64_t n, F term) const {
    return RandomTreeTeam{random}.reduce<Kind>(n, term);
  }
  template <class F>
  auto max(std::int64_t n, F term) const {
    return HostTeam<4>{}.max(n, term);
  }
  template <class F>
  void map(std::int64_t n, F action) const {
    HostTeam<1>{}.map(n, action);
  }
};

/// A random tree: nodes of 2 to `most` children, leaves and results in any order.
inline SumTree random_tree(Random& random, std::int64_t leaves, int most) {
  SumTree tree{leaves, {}};
  std::vector<std::int64_t> open(static_cast<std::size_t>(leaves));
  std::iota(open.begin(), open.end(), 0);
  while (open.size() > 1) {
    std::shuffle(open.begin(), open.end(), random);
    const auto k = std::min(open.size(), static_cast<std::size_t>(whole(random, 2, most)));
    tree.nodes.emplace_back(open.end() - static_cast<std::ptrdiff_t>(k), open.end());
    open.resize(open.size() - k);
    open.push_back(leaves + static_cast<std::int64_t>(tree.nodes.size()) - 1);
  }
  return tree;
}

}  // namespace attack
}  // namespace opbound
