#include "distributed/trace/call_judge.hpp"

#include <algorithm>
#include <cmath>

#include "distributed/trace/cut_judge.hpp"
#include "distributed/trace/product_check.hpp"
#include "distributed/trace/rerun.hpp"
#include "distributed/trace/sample.hpp"
#include "ops/hash.hpp"
#include "reports/text.hpp"
#include "suites/run.hpp"

namespace opbound::trace {
namespace {

constexpr std::array<std::string_view, 3> phase_names{"model", "norm", "update"};

/// Judges one call; its sample hangs on the call's seed alone.
class CallJudge {
 public:
  CallJudge(const PastCall& past, const Share& share)
      : past_(past), share_(share), spec_(past.step->spec), op_(*spec_.op) {
    spec_.attributes = past.call.attributes;
    const Provider& p = *past.provider;
    contract_ =
        p.contract(op_, p.is_foreign() ? spec_.declared : std::vector<int>{past.call.variant});
  }

  CallResult run() {
    if (share_.certified)
      whole();
    else if (op_.name == "matmul")
      product();
    else if (const std::vector<Family> families = families_of(spec_); !families.empty())
      blocks(families);
    else
      uncuttable();
    return std::move(result_);
  }

 private:
  void whole() {
    Prepared prepared{{}, {}, past_.call};
    for (Record& r : judge_case(spec_, *past_.provider, prepared, contract_))
      take(std::move(r), -1);
  }

  // ---- blocks that are independent

  void blocks(const std::vector<Family>& families) {
    CutJudge judge(op_, contract_);
    std::uint64_t salt = 0;
    for (const Family& f : families) {
      const std::int64_t all = trace::blocks_of(spec_, f);
      const std::int64_t wanted = f.is_elementwise ? share_.elements : share_.blocks;
      auto chosen = sampled(all, allowed_blocks(spec_, f, wanted), seed(salt++));
      if (op_.name == "unscale") take_nonfinite(chosen);
      for (const Cut& cut : cuts_of(spec_, past_.call, f, chosen)) judge.judge(cut, f.outputs);
      for (const std::string_view name : f.outputs)
        if (op_.has_tensor(spec_.attributes, name))
          judge.count(tensor_of(spec_, name), std::ssize(chosen), all);
    }
    take(judge, {});
    if (op_.name == "cross_entropy" && spec_.direction == Direction::forward) mean_of_losses();
  }

  /// Whether any gradient is not finite: with the first of those, the cut says what the whole does.
  void take_nonfinite(std::vector<std::int64_t>& chosen) const {
    const TensorView& g = past_.call.judged()[0];
    for (std::int64_t i = 0, n = g.count(); i < n; ++i) {
      if (std::isfinite(g.at(i))) continue;
      const auto place = std::lower_bound(chosen.begin(), chosen.end(), i);
      if (place == chosen.end() || *place != i) chosen.insert(place, i);
      return;
    }
  }

  /// The mean against the losses that it is of, as they are stored: n - 1 additions in any order
  /// (Jeannerod and Rump 2013) and a division in the compute format, then the store.
  void mean_of_losses() {
    const auto at = [&](std::string_view name) { return tensor_of(spec_, name); };
    const TensorView& losses = past_.call.forward[static_cast<std::size_t>(at("loss"))];
    const TensorView& mean = past_.call.forward[static_cast<std::size_t>(at("reduced"))];
    const std::int64_t n = losses.count();
    double sum = 0, size = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += losses.at(i);
      size += std::fabs(losses.at(i));
    }
    const auto terms = static_cast<double>(n);
    const Format compute = past_.call.compute, stored = format_of(mean.element);
    const double u = compute.unit_roundoff(), fp64_error = 2 * terms * 0x1p-53;
    const double exact = sum / terms, radius = fp64_error * size / terms;
    const double before_store =
        ((terms * u) * (1 + u) * size) / terms * (1 + fp64_error) + compute.eta();
    const double bound =
        before_store + stored.unit_roundoff() * (std::fabs(exact) + before_store) + stored.eta();
    const double got = mean.at(0);
    // a loss that is not finite has a mean that is not
    const bool fits =
        std::isfinite(size) ? std::fabs(got - exact) <= bound + radius : !std::isfinite(got);
    OutputCheck c;
    c.tensor = at("reduced");
    c.counts = {fits ? 1U : 0U, fits ? 0U : 1U, 0, 0, 1};
    c.ratio = std::isfinite(size) ? std::fabs(got - exact) / (bound + radius) : 0;
    c.blocks = {1, 1};
    c.worst = {0, {}, got, exact - radius, exact + radius, bound};
    Record r = record(c);
    r.bound_source = "mean of the stored losses, any order";
    take(std::move(r), c.tensor);
  }

  // ---- products

  void product() {
    CutJudge judge(op_, contract_);
    std::vector<Record> rows;
    std::uint64_t salt = 0;
    const std::vector<NamedProduct> products = products_of(op_, past_.call);
    for (const NamedProduct& p : products) {
      const ProductRows found = check_product(p.product, seed(salt++));
      rows.push_back(record_of_rows(p.output, found));
      if (!found.failing.empty())
        judge_slice(judge, p.output, found.failing.front(), p.output == "dbias");
    }
    for (const std::string_view name : {"d", "da", "db", "dbias", "dc"}) {
      const int t = output_named(name);
      const auto as_product = std::find_if(products.begin(), products.end(),
                                           [&](const auto& p) { return p.output == name; });
      if (t < 0) continue;
      if (as_product != products.end() && name != "dbias")
        sample_product(judge, as_product->product, t, seed(salt++));
      else
        sample_elements(judge, name, t, seed(salt++));
    }
    take(judge, rows);
  }

  int output_named(std::string_view name) const {
    const auto& tensors = op_.pass(spec_.direction).tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (tensors[t].name == name && op_.has_tensor(spec_.attributes, name) &&
          past_.call.judged()[t].data != nullptr)
        return static_cast<int>(t);
    return -1;
  }

  /// The dimensions of an output's axes.
  std::vector<int> axes_of(int tensor) const {
    const TensorSpec& t = op_.pass(spec_.direction).tensors[static_cast<std::size_t>(tensor)];
    std::vector<int> axes;
    for (int a = 0; a < t.rank(); ++a)
      axes.push_back(dim_of(spec_, t.dims[static_cast<std::size_t>(a)]));
    return axes;
  }

  /// Row `row` of an output, or all of it where it is one row.
  void judge_slice(CutJudge& judge, std::string_view output, std::int64_t row, bool is_all) {
    const std::vector<int> axes = axes_of(tensor_of(spec_, output));
    const Choice choice{is_all ? Choice::value_type{dim_of(spec_, "k"), {}}
                               : Choice::value_type{axes[0], {row}}};
    judge.judge(cut_at(spec_, past_.call, choice), {output});
  }

  /// Each element is a case of its own: a row times a column.
  void sample_product(CutJudge& judge, const Product& p, int tensor, std::uint64_t salt) {
    const auto chosen = sampled(p.d.count(), share_.product_elements, salt);
    for (const std::int64_t e : chosen) {
      Cut cut = product_element(spec_, past_.call, p.a, p.b, p.d, p.bias, e);
      cut.stands_for = tensor;
      judge.judge(cut, {"d"});
    }
    judge.count(tensor, std::ssize(chosen), p.d.count());
  }

  /// The same as a cut of the call, which makes the other outputs too.
  void sample_elements(CutJudge& judge, std::string_view output, int tensor, std::uint64_t salt) {
    const TensorView& view = past_.call.judged()[static_cast<std::size_t>(tensor)];
    const std::vector<int> axes = axes_of(tensor);
    const auto chosen = sampled(view.count(), share_.product_elements, salt);
    if (axes.size() == 1) {
      judge.judge(cut_at(spec_, past_.call, {{axes[0], chosen}, {dim_of(spec_, "k"), {}}}),
                  {output});
    } else {
      for (const std::int64_t e : chosen) {
        const std::int64_t columns = view.size[1];
        judge.judge(cut_at(spec_, past_.call, {{axes[0], {e / columns}}, {axes[1], {e % columns}}}),
                    {output});
      }
    }
    judge.count(tensor, std::ssize(chosen), view.count());
  }

  Record record_of_rows(std::string_view output, const ProductRows& rows) const {
    Record r = record_of(spec_, *past_.provider);
    r.kind = CheckKind::statistical;
    r.part = std::string(output);
    r.bound_source = "sums with " + std::to_string(quick_check_vectors) +
                     " vectors of random signs, for every order; misses 1 in " +
                     std::to_string(1 << quick_check_vectors);
    r.counts.checked = static_cast<std::uint64_t>(rows.judged);
    r.counts.exceeds = rows.failing.size();
    r.counts.within = r.counts.checked - r.counts.exceeds;
    r.verdict = rows.failing.empty() ? Verdict::within : Verdict::exceeds;
    if (!rows.failing.empty()) r.reason = "row " + std::to_string(rows.failing.front());
    return r;
  }

  // ---- what cannot be cut

  void uncuttable() {
    const bool is_random = op_.name == "dropout" || op_.name == "adamw" || op_.name == "cast";
    const bool is_own = contract_.order == Contract::Order::own;
    const bool is_chosen = seed(0) % static_cast<std::uint64_t>(share_.whole_one_in) == 0;
    if (!is_random || !is_own || is_chosen) whole();
    if (!is_random || !is_own) return;
    for (const Rerun& rerun : rerun_own(spec_, past_.call)) {
      Record r = record_of(spec_, *past_.provider);
      r.kind = CheckKind::agreement;
      r.part = op_.pass(spec_.direction).tensors[static_cast<std::size_t>(rerun.tensor)].name;
      r.bound_source = "the own kernel's bits, run again";
      r.counts.checked = static_cast<std::uint64_t>(rerun.checked);
      r.counts.exceeds = static_cast<std::uint64_t>(rerun.different);
      r.counts.within = r.counts.checked - r.counts.exceeds;
      r.verdict = rerun.different > 0 ? Verdict::exceeds : Verdict::within;
      if (rerun.different > 0)
        r.worst = Worst{static_cast<std::uint64_t>(rerun.first),
                        {},
                        rerun.got,
                        rerun.expected,
                        rerun.expected,
                        0};
      take(std::move(r), rerun.tensor);
    }
  }

  // ---- what comes of it

  std::uint64_t seed(std::uint64_t salt) const {
    return element_hash(static_cast<std::int64_t>(salt), past_.seed);
  }

  Record record(const OutputCheck& c) const {
    Record r = record_of(spec_, *past_.provider, c);
    r.contract = contract_text(op_, contract_);
    const Element e = past_.call.judged()[static_cast<std::size_t>(c.tensor)].element;
    r.bound_source = is_float(e) ? bound_source(contract_, c.by_theorem) : "exact";
    if (!is_float(e)) r.kind = CheckKind::exact;
    r.output_hash.clear();  // of blocks it says nothing
    return r;
  }

  /// Rows that fail are told by the element that was found in them, if there is one.
  void take(const CutJudge& judge, std::vector<Record> rows) {
    const std::vector<OutputCheck> checks = judge.checks();
    std::vector<std::string> told;
    for (const OutputCheck& c : checks) {
      Record r = record(c);
      if (r.verdict == Verdict::exceeds) told.push_back(r.part);
      take(std::move(r), c.tensor);
    }
    for (Record& r : rows) {
      const bool is_told = std::find(told.begin(), told.end(), r.part) != told.end();
      const int tensor = is_told ? -2 : output_named(r.part);
      take(std::move(r), tensor);
    }
  }

  /// tensor -2: a finding of it was made already.
  void take(Record r, int tensor) {
    const train::CallPlace& place = past_.place;
    r.in_situ =
        InSitu{place.step, past_.rank, past_.step->layer, static_cast<std::int64_t>(place.index)};
    r.inputs.input = std::string(phase_names[static_cast<std::size_t>(place.phase)]) + " tape";
    if (place.micro_batch >= 0)
      r.inputs.input += ", micro-batch " + std::to_string(place.micro_batch);
    r.inputs.input += ", " + past_.step->part;
    r.inputs.seed = past_.seed;
    if (r.kind != CheckKind::statistical && r.kind != CheckKind::agreement)
      result_.elements += r.counts.checked;
    if (tensor != -2 && (r.verdict == Verdict::exceeds || r.verdict == Verdict::failed))
      result_.findings.push_back(finding(r));
    result_.records.push_back(std::move(r));
  }

  Finding finding(const Record& r) const {
    Finding f;
    f.check = "op";
    f.step = past_.place.step;
    f.rank = past_.rank;
    f.micro_batch = past_.place.micro_batch;
    f.layer = past_.step->layer;
    f.call = static_cast<std::int64_t>(past_.place.index);
    f.part = past_.step->part;
    f.op = r.op;
    f.direction = r.direction;
    f.tensor = r.part;
    f.wrong = r.counts.exceeds;
    std::string what = r.reason;
    if (r.worst) {
      f.index = static_cast<std::int64_t>(r.worst->index);
      f.got = r.worst->got;
      f.low = r.worst->low;
      f.high = r.worst->high;
      f.bound = r.worst->bound;
      what = "element " + std::to_string(f.index) + " is " + shortest(f.got) + ", exact " +
             shortest(f.low / 2 + f.high / 2) + ", bound " + shortest(f.bound);
    }
    f.text = f.tensor + ": " + what + "; " + std::to_string(r.counts.exceeds) + " of " +
             std::to_string(r.counts.checked) +
             (r.kind == CheckKind::statistical ? " rows" : " elements") + " are wrong (" +
             r.bound_source + ")";
    return f;
  }

  const PastCall& past_;
  const Share& share_;
  CaseSpec spec_;
  const Op& op_;
  Contract contract_;
  CallResult result_;
};

}  // namespace

CallResult judge_call(const PastCall& past, const Share& share) {
  return CallJudge(past, share).run();
}

}  // namespace opbound::trace
