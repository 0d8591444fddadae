/* A block's threads as fibers: switching, barriers, warp operations, orders, shared memory.
 *
 * Compiled without -fsanitize=thread, whatever the kernels have: what this file does must order nothing. What orders
 * threads on the device is told to ThreadSanitizer in so many words (release before a meeting, acquire after it). The
 * tokens of that alternate: with one alone the next meeting's would hide races of the phase between.
 */
#include "tests/emulator/emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include <sys/mman.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

#ifdef EMULATOR_ADDRESS
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef EMULATOR_THREAD
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
#endif

namespace
{

constexpr size_t STACK_BYTES = 64 * 1024;
constexpr unsigned MOST_THREADS = 1024, WARP = 32;

enum class state { ready, at_barrier, at_warp, ended };

struct fiber {
    emulator_fiber visible; /* the first member: emulator_thread points here */
    state now;
    unsigned number; /* in the block */
    void *stack_pointer;
    char *stack;
    /* at a warp operation */
    emulator_operation operation;
    unsigned mask;
    uint64_t value;
    int lane, site;
    int line; /* of the barrier */
    unsigned n_barriers, n_meetings;
    void *tsan, *fake_stack;
#ifndef __x86_64__
    ucontext_t context;
#endif
};

struct shared_array {
    const void *site;
    void *memory;
};

struct machine {
    emulator_order order = EMULATOR_FORWARD;
    uint64_t random = 1;
    unsigned char poison = 0xff;
    emulator_counts counts = {};
    const emulator_shape *shape = nullptr;
    const std::function<void()> *kernel = nullptr;
    std::vector<fiber> fibers;
    std::vector<unsigned> turns;
    std::vector<shared_array> shared;
    std::vector<void *> launch_memory; /* freed when the launch ends: a next block must not get the same addresses */
    void *dynamic_shared = nullptr;
    char *stacks = nullptr;
    unsigned n_threads = 0, n_ended = 0, n_waiting = 0;
    fiber *running = nullptr;
    void *main_stack_pointer = nullptr, *main_tsan = nullptr, *main_fake_stack = nullptr;
    char barrier_tokens[2], launch_token, end_token, warp_tokens[MOST_THREADS / WARP][2];
#ifndef __x86_64__
    ucontext_t main_context;
#endif
};

machine m;

[[noreturn]] void broken(const char *what, const fiber *f)
{
    fprintf(stderr, "emulator: %s in %s, block %u %u %u", what, m.shape->name, f->visible.block.x, f->visible.block.y,
            f->visible.block.z);
    for (const fiber &other : m.fibers)
        if (other.now != state::ready)
            fprintf(stderr, "\n  thread %u: %s %d", other.number,
                    other.now == state::at_barrier ? "at the barrier of line"
                    : other.now == state::at_warp  ? "at the warp operation of line"
                                                   : "ended",
                    other.now == state::at_barrier ? other.line
                    : other.now == state::at_warp  ? other.site / 4096
                                                   : 0);
    fprintf(stderr, "\n");
    abort();
}

uint64_t draw()
{
    uint64_t z = m.random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void set_turns(std::vector<unsigned> &turns, size_t n)
{
    turns.resize(n);
    std::iota(turns.begin(), turns.end(), 0u);
    if (m.order == EMULATOR_REVERSE)
        std::reverse(turns.begin(), turns.end());
    if (m.order == EMULATOR_RANDOM)
        for (size_t i = n; i > 1; i--)
            std::swap(turns[i - 1], turns[draw() % i]);
}

void tell_release(char *token)
{
#ifdef EMULATOR_THREAD
    __tsan_release(token);
#else
    (void)token;
#endif
}

void tell_acquire(char *token)
{
#ifdef EMULATOR_THREAD
    __tsan_acquire(token);
#else
    (void)token;
#endif
}

/* What the emulator does for a thread's sake is no access of that thread. */
struct unseen {
#ifdef EMULATOR_THREAD
    unseen()
    {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~unseen()
    {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
#else
    unseen()
    {
    }
#endif
};

/* --- switching --- */

#ifdef __x86_64__
extern "C" void emulator_switch(void **from, void *to);
__asm__(".text\n.globl emulator_switch\n.type emulator_switch,@function\nemulator_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size emulator_switch,.-emulator_switch\n");
#endif

void to_main(bool ending)
{
    fiber *f = m.running;
#ifdef EMULATOR_ADDRESS
    __sanitizer_start_switch_fiber(ending ? nullptr : &f->fake_stack, nullptr, 0);
#else
    (void)ending;
#endif
#ifdef EMULATOR_THREAD
    __tsan_switch_to_fiber(m.main_tsan, 1);
#endif
#ifdef __x86_64__
    emulator_switch(&f->stack_pointer, m.main_stack_pointer);
#else
    swapcontext(&f->context, &m.main_context);
#endif
#ifdef EMULATOR_ADDRESS
    __sanitizer_finish_switch_fiber(f->fake_stack, nullptr, nullptr);
#endif
}

void start()
{
#ifdef EMULATOR_ADDRESS
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    tell_acquire(&m.launch_token);
    (*m.kernel)();
    tell_release(&m.end_token);
    m.running->now = state::ended;
    m.n_ended++;
    to_main(true);
    abort();
}

void resume(fiber *f)
{
    m.running = f;
    emulator_thread = &f->visible;
    m.counts.switches++;
#ifdef EMULATOR_ADDRESS
    __sanitizer_start_switch_fiber(&m.main_fake_stack, f->stack, STACK_BYTES);
#endif
#ifdef EMULATOR_THREAD
    __tsan_switch_to_fiber(f->tsan, 1);
#endif
#ifdef __x86_64__
    emulator_switch(&m.main_stack_pointer, f->stack_pointer);
#else
    swapcontext(&m.main_context, &f->context);
#endif
#ifdef EMULATOR_ADDRESS
    __sanitizer_finish_switch_fiber(m.main_fake_stack, nullptr, nullptr);
#endif
}

void prepare(fiber *f)
{
#ifdef __x86_64__
    void **top = reinterpret_cast<void **>(f->stack + STACK_BYTES);
    *--top = nullptr; /* what a call would have left: the stack is then aligned as after one */
    *--top = reinterpret_cast<void *>(start);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    f->stack_pointer = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = nullptr;
    makecontext(&f->context, start, 0);
#endif
#ifdef EMULATOR_THREAD
    f->tsan = __tsan_create_fiber(0);
#endif
}

/* Under ThreadSanitizer anew for each block, or the last one's accesses to them would count. */
void map_stacks()
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const size_t bytes = MOST_THREADS * STACK_BYTES;
    if (m.stacks == nullptr)
        m.stacks = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0));
#ifdef EMULATOR_THREAD
    if (mmap(m.stacks, m.n_threads * STACK_BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
#endif
    if (m.stacks == MAP_FAILED)
        abort();
}

/* --- a block --- */

void *fresh(size_t bytes)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 16, bytes ? bytes : 16) != 0)
        abort();
    memset(memory, m.poison, bytes);
    m.launch_memory.push_back(memory);
    return memory;
}

void open_block(emulator_index block)
{
    const unseen scope;
    map_stacks();
    m.shared.clear();
    m.dynamic_shared = m.shape->shared_bytes ? fresh(m.shape->shared_bytes) : nullptr;
    m.n_ended = m.n_waiting = 0;
    m.fibers.assign(m.n_threads, fiber());
    for (unsigned i = 0; i < m.n_threads; i++) {
        fiber &f = m.fibers[i];
        const emulator_index size = m.shape->block;
        f.visible.thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        f.visible.block = block;
        f.number = i;
        f.stack = m.stacks + i * STACK_BYTES;
        prepare(&f);
    }
}

bool release_barrier()
{
    if (m.n_waiting == 0 || m.n_waiting + m.n_ended < m.n_threads)
        return false;
    int line = 0;
    for (fiber &f : m.fibers) {
        if (f.now != state::at_barrier)
            continue;
        if (line != 0 && f.line != line)
            broken("threads at different barriers", &f);
        line = f.line;
        f.now = state::ready;
    }
    m.n_waiting = 0;
    return true;
}

void run_block(emulator_index block)
{
    open_block(block);
    while (m.n_ended < m.n_threads) {
        bool any = false;
        set_turns(m.turns, m.n_threads);
        for (unsigned turn : m.turns)
            if (m.fibers[turn].now == state::ready) {
                resume(&m.fibers[turn]);
                any = true;
            }
        if (!any && !release_barrier())
            broken("no thread can go on", &m.fibers[0]);
    }
#ifdef EMULATOR_THREAD
    for (fiber &f : m.fibers)
        __tsan_destroy_fiber(f.tsan);
#endif
    m.counts.threads += m.n_threads;
}

/* --- warp operations --- */

bool is_exited(unsigned number)
{
    return number >= m.n_threads || m.fibers[number].now == state::ended;
}

uint64_t result_of(const fiber *f, unsigned first)
{
    const unsigned own = f->number % WARP;
    unsigned from = own;
    if (f->operation == EMULATOR_BALLOT) {
        uint64_t bits = 0;
        for (unsigned i = 0; i < WARP; i++)
            if ((f->mask >> i & 1) && !is_exited(first + i) && m.fibers[first + i].value)
                bits |= uint64_t(1) << i;
        return bits;
    }
    if (f->operation == EMULATOR_XOR)
        from = own ^ unsigned(f->lane);
    else if (f->operation == EMULATOR_INDEX)
        from = unsigned(f->lane) % WARP;
    else if (f->operation == EMULATOR_UP)
        from = own >= unsigned(f->lane) ? own - unsigned(f->lane) : own;
    if (from >= WARP || !(f->mask >> from & 1) || is_exited(first + from))
        broken("a shuffle reads a lane that takes no part", f);
    return m.fibers[first + from].value;
}

/* True when all lanes of the mask that still run are at the same operation. */
bool all_arrived(const fiber *f, unsigned first)
{
    for (unsigned i = 0; i < WARP; i++) {
        if (!(f->mask >> i & 1) || is_exited(first + i))
            continue;
        const fiber &other = m.fibers[first + i];
        if (other.now != state::at_warp)
            return false;
        if (other.site != f->site || other.mask != f->mask || other.operation != f->operation)
            broken("lanes of one mask at different operations", f);
    }
    return true;
}

} // namespace

extern "C" {

emulator_fiber *emulator_thread;
emulator_index emulator_block_size, emulator_grid_size;

void emulator_set_order(emulator_order order, uint64_t seed)
{
    m.order = order;
    m.random = seed;
}

void emulator_set_poison(unsigned char poison)
{
    m.poison = poison;
}

emulator_counts emulator_count(void)
{
    return m.counts;
}

void *emulator_memory_open(size_t bytes)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1) != 0)
        return nullptr;
    memset(memory, m.poison, bytes);
    return memory;
}

void emulator_memory_close(void *memory)
{
    free(memory);
}

void emulator_barrier(int line)
{
    fiber *f = m.running;
    char *token = &m.barrier_tokens[f->n_barriers++ % 2];
    tell_release(token);
    f->now = state::at_barrier;
    f->line = line;
    m.n_waiting++;
    to_main(false);
    tell_acquire(token);
}

uint64_t emulator_warp(emulator_operation operation, unsigned mask, uint64_t value, int lane, int site)
{
    fiber *f = m.running;
    const unsigned first = f->number / WARP * WARP;
    char *token = &m.warp_tokens[first / WARP][f->n_meetings++ % 2];
    f->operation = operation;
    f->mask = mask;
    f->value = value;
    f->lane = lane;
    f->site = site;
    if (!(mask >> (f->number % WARP) & 1))
        broken("a lane outside its own mask", f);
    tell_release(token);
    f->now = state::at_warp;
    if (all_arrived(f, first)) {
        /* All results before any lane goes on and writes its next value. */
        uint64_t results[WARP];
        for (unsigned i = 0; i < WARP; i++)
            if ((mask >> i & 1) && !is_exited(first + i))
                results[i] = operation == EMULATOR_SYNC ? 0 : result_of(&m.fibers[first + i], first);
        for (unsigned i = 0; i < WARP; i++)
            if ((mask >> i & 1) && !is_exited(first + i)) {
                m.fibers[first + i].value = results[i];
                m.fibers[first + i].now = state::ready;
            }
    }
    /* The last to arrive gives way too when the order is not forward: else it would always be the first to go on. */
    if (f->now != state::ready || m.order != EMULATOR_FORWARD)
        to_main(false);
    tell_acquire(token);
    return f->value;
}

void *emulator_shared(const void *site, size_t bytes)
{
    const unseen scope;
    for (const shared_array &array : m.shared)
        if (array.site == site)
            return array.memory;
    m.shared.push_back({site, fresh(bytes)});
    return m.shared.back().memory;
}

void *emulator_dynamic_shared(void)
{
    if (m.dynamic_shared == nullptr)
        broken("no dynamic shared memory was asked for", m.running);
    return m.dynamic_shared;
}

} // extern "C"

/* --- launches and graphs --- */

struct emulator_graph {
    std::vector<std::function<void()>> work;
};

namespace
{
emulator_graph *kept;
bool graphs_are_broken;

void run_launch(const emulator_shape &shape, const std::function<void()> &kernel)
{
    m.shape = &shape;
    m.kernel = &kernel;
    m.n_threads = shape.block.x * shape.block.y * shape.block.z;
    emulator_block_size = shape.block;
    emulator_grid_size = shape.grid;
    const size_t n_blocks = size_t(shape.grid.x) * shape.grid.y * shape.grid.z;
    if (m.n_threads == 0 || m.n_threads > MOST_THREADS || n_blocks == 0 || shape.grid.y > 65535 ||
        shape.grid.z > 65535 || shape.shared_bytes > 48 * 1024) {
        fprintf(stderr, "emulator: %s cannot be launched so\n", shape.name);
        abort();
    }
#ifdef EMULATOR_THREAD
    m.main_tsan = __tsan_get_current_fiber();
#endif
    tell_release(&m.launch_token);
    std::vector<unsigned> blocks;
    set_turns(blocks, n_blocks);
    for (unsigned i : blocks)
        run_block({i % shape.grid.x, i / shape.grid.x % shape.grid.y, i / shape.grid.x / shape.grid.y});
    tell_acquire(&m.end_token);
    for (void *memory : m.launch_memory)
        free(memory);
    m.launch_memory.clear();
    m.counts.launches++;
}
} // namespace

void emulator_keep(std::function<void()> work)
{
    if (kept != nullptr)
        kept->work.push_back(std::move(work));
    else
        work();
}

void emulator_launch(const emulator_shape &shape, std::function<void()> kernel)
{
    emulator_keep([shape, kernel]() { run_launch(shape, kernel); });
}

void emulator_graph_break(bool broken)
{
    graphs_are_broken = broken;
}

void emulator_graph_begin(void)
{
    kept = new emulator_graph;
}

emulator_graph *emulator_graph_end(void)
{
    emulator_graph *graph = kept;
    kept = nullptr;
    if (!graphs_are_broken)
        return graph;
    delete graph;
    return nullptr;
}

void emulator_graph_run(emulator_graph *graph)
{
    for (const std::function<void()> &work : graph->work)
        work();
    m.counts.graph_runs++;
}

void emulator_graph_close(emulator_graph *graph)
{
    delete graph;
}

float emulator_half_to_float(uint16_t bits)
{
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    uint32_t word;
    if (magnitude >= 0x7c00u)
        word = sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
    else if (magnitude >= 0x0400u)
        word = sign | ((magnitude << 13) + (112u << 23));
    else {
        const float small = float(magnitude) * 0x1p-24f;
        memcpy(&word, &small, sizeof word);
        word |= sign;
    }
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint16_t emulator_half_from_float(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    const uint32_t sign = word >> 16 & 0x8000u, magnitude = word & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return uint16_t(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u)
        return uint16_t(sign | 0x7c00u);
    if (magnitude >= 0x38800000u)
        return uint16_t(sign | (((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10)));
    float shifted, half = 0.5f;
    memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += half;
    uint32_t bits, base;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&base, &half, sizeof base);
    return uint16_t(sign | (bits - base));
}
