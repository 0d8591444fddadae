#!/usr/bin/env python3
"""Makes policy.txt: what the numpy definition of RoCo that the project's design uses evicts from generated caches.

    make_policy.py > policy.txt          needs numpy

A line is `policy kind seed n budget surplus now sink recent : victims' positions, ascending`. The cache itself is not in
the file: tests/unit/engine/test_policy.c draws the same one from (kind, seed) with the same generator. The rules of
policies that the project's design does not define are those that the head of engine/policy_<name>.c states.
"""
import numpy as np

MASK = (1 << 64) - 1
DIM = 8


class Stream:
    """splitmix64; unit() has 24 bits, so it is the same number in every float type."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n

    def unit(self):
        return (self.next() >> 40) / 16777216.0


def cache(kind, seed, n, last):
    """pos ascending, S, S2 as float32. Position 0 is held and the last one is `last`."""
    r = Stream(seed)
    pos = np.zeros(n, np.int64)
    for j in range(1, n):
        pos[j] = pos[j - 1] + 1 + r.below(3)
    now = int(pos[-1]) + last
    S, S2 = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for j in range(n):
        seen = float(now - pos[j] + 1)
        if kind == "random":        # mean and std unrelated
            m = r.unit() / n
            v = m * m + r.unit() / n / n
        elif kind == "coarse":      # few different values: ties in both rankings
            m = (1 + r.below(4)) / 1024.0
            v = m * m + r.below(3) / 65536.0
        elif kind == "equal":       # one value: position alone decides
            m, v = 0.25, 0.0625
        else:                       # "steady": constant attention, so rounding makes some variances negative
            m = (1 + r.unit()) / n
            v = m * m
        S[j], S2[j] = np.float32(m * seen), np.float32(v * seen)
    return pos, S.astype(np.float64), S2.astype(np.float64), now


def vectors(seed, n, dim):
    """K and V [n, dim], float32, in position order; keys share a direction, as real ones do."""
    r = Stream(seed)
    draw = lambda: np.array([[np.float32(r.unit() - 0.5) for _ in range(dim)] for _ in range(n)]).astype(np.float64)
    K, V = draw(), draw()
    K[:, 0] += 0.5
    return K, V


def pool(x, width, reduce):
    half = width // 2
    return np.array([reduce(x[max(i - half, 0):i + half + 1]) for i in range(len(x))])


def likeness(K):
    """Mean cosine with all keys."""
    k = K / np.linalg.norm(K, axis=-1, keepdims=True)
    return (k * k.mean(0)).sum(-1)


def caote(a, V):
    a = a / a.sum()
    return a / np.maximum(1 - a, 1e-6) * np.linalg.norm(V - a @ V, axis=-1)


def random_key(layer, head, now, position):
    """The rule that engine/policy_random.c states."""
    stream = Stream(layer << 32 | head).next()
    return float(Stream((stream + (now << 32) + position) & MASK).next() >> 11)


def victims(policy, pos, S, S2, K, V, budget, surplus, now, sink, recent, ratio=0.1):
    """The reference's rule; slots are in position order, so stable sorts break ties by lowest position. Where a policy keeps
    something else of the attention than S and S2, that stands in their place, as in the slots."""
    n = now - pos + 1.0
    mean = S / n
    newest = pos > now - recent
    score, guard = None, (pos < sink) | newest
    if policy == "keydiff":
        score = -likeness(K)
    elif policy == "tova+caote":
        score = caote(S, V)
    elif policy == "h2o+caote":
        score, guard = caote(S, V), guard | (pos > now - int(budget * ratio))
    elif policy == "vatp":
        score = mean * np.abs(V).sum(-1)
    elif policy == "snapkv":
        score, guard = pool(np.maximum(S, S2), 5, np.mean), guard | (pos > now - min(32, budget // 4))
    elif policy == "r-kv":
        seen = now - np.maximum(np.maximum(pos, (now // 8 - 1) * 8), 0) + 1
        similar = np.exp(likeness(K))
        score = 0.1 * pool((S + S2) / seen, 7, np.max) - 0.9 * similar / similar.sum()
    if score is not None:
        return np.argsort(np.where(guard, np.inf, score), kind="stable")[:surplus]
    if policy == "recency":
        score, guard = pos.astype(float), pos < sink
    elif policy == "h2o":
        score, guard = S, (pos < sink) | (pos > now - max(recent, int(budget * ratio)))
    elif policy == "mean":
        score, guard = mean, (pos < sink) | newest
    elif policy == "tova":                      # the last query's attention stands where S else does
        score, guard = S, (pos < sink) | newest
    elif policy == "random":
        score, guard = np.array([random_key(5, 2, now, int(p)) for p in pos]), (pos < sink) | newest
    else:
        if policy == "roco+caote":
            mean = caote(mean, V)
        std = np.sqrt(np.maximum(S2 / n - (S / n) ** 2, 0))
        std = np.where((pos < sink) | newest, np.inf, std)
        candidate = np.zeros(len(n), bool)
        candidate[np.argsort(std, kind="stable")[:max(budget - int(budget * ratio) - sink, surplus)]] = True
        score, guard = mean, ~candidate | (pos < sink) | newest
    return np.argsort(np.where(guard, np.inf, score), kind="stable")[:surplus]


def main():
    seed = 1
    for policies in (("roco", "recency"), ("mean",), ("h2o",), ("tova",), ("random",), ("keydiff",), ("roco+caote",),
                     ("h2o+caote",), ("tova+caote",), ("vatp",), ("snapkv",), ("r-kv",)):
        for kind in ("random", "coarse", "equal", "steady"):
            for budget, surplus, sink, recent in (
                    (32, 8, 4, 10), (32, 64, 4, 10), (40, 1, 4, 10), (64, 1, 4, 10), (64, 16, 0, 10), (64, 64, 4, 0),
                    (70, 1, 4, 10), (130, 1, 0, 1), (128, 40, 4, 100), (256, 1, 4, 10), (256, 64, 4, 10),
                    (270, 3, 8, 32), (512, 1, 4, 10), (512, 64, 4, 10), (1136, 64, 4, 10), (1200, 1, 4, 10)):
                # In decode the view is the budget's slots and one of them goes.
                n = budget if surplus == 1 else budget + surplus
                for policy in policies:
                    pos, S, S2, now = cache(kind, seed, n, seed % 2)
                    K, V = vectors(seed + 10 ** 6, n, DIM)
                    gone = sorted(pos[victims(policy, pos, S, S2, K, V, budget, surplus, now, sink, recent)])
                    print(policy, kind, seed, n, budget, surplus, now, sink, recent, ":", *gone)
                    seed += 1


if __name__ == "__main__":
    main()
