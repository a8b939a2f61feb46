// A plain price ladder in C++: the yardstick of `se-rl bench book`. One side-aware book, fixed price range, no accounts,
// no trade log, no bounds checks: what a fast book costs at the least.
//
// usage: ladder STREAM MESSAGES REPEATS
// STREAM holds int32 rows of six: kind (0 limit, 2 market, 3 cancel), side (0 buy, 1 sell), price, quantity, owner, id.
// Prints the best CPU seconds of one replay, then trades, volume and resting orders.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

constexpr int PRICES = 512, SLOTS = 512, NONE = -1;
enum Kind { LIMIT = 0, MARKET = 2, CANCEL = 3 };
struct Message { int32_t kind, side, price, quantity, owner, id; };
struct Level { int32_t head, tail, quantity, count; };
struct Order { int32_t price, quantity, next, prev, side, owner, id, unused; };

struct Ladder {
    Level levels[PRICES];
    Order orders[SLOTS];
    int32_t free_slots[SLOTS], free_count, bid, ask, live;
    int64_t trades, volume;

    void clear() {
        std::fill(levels, levels + PRICES, Level{NONE, NONE, 0, 0});
        std::fill(orders, orders + SLOTS, Order{});
        for (int i = 0; i < SLOTS; i++) free_slots[i] = SLOTS - 1 - i;
        free_count = SLOTS, bid = 0, ask = PRICES - 1, live = 0, trades = 0, volume = 0;
    }

    void remove(int slot) {
        Order &order = orders[slot];
        Level &level = levels[order.price];
        (order.prev == NONE ? level.head : orders[order.prev].next) = order.next;
        (order.next == NONE ? level.tail : orders[order.next].prev) = order.prev;
        level.quantity -= order.quantity;
        order.quantity = 0;
        free_slots[free_count++] = slot;
        live--;
        if (--level.count) return;
        if (order.side == 0 && order.price == bid) while (bid > 0 && !levels[bid].count) bid--;
        if (order.side == 1 && order.price == ask) while (ask < PRICES - 1 && !levels[ask].count) ask++;
    }

    int match(int side, int price, int quantity) {
        while (quantity > 0) {
            const int best = side == 0 ? ask : bid;
            if (side == 0 ? best > price || best == PRICES - 1 : best < price || best == 0) break;
            const int slot = levels[best].head, fill = std::min(orders[slot].quantity, quantity);
            quantity -= fill, trades++, volume += fill;
            if (fill == orders[slot].quantity) remove(slot);
            else orders[slot].quantity -= fill, levels[best].quantity -= fill;
        }
        return quantity;
    }

    int limit(const Message &m) {
        int quantity = m.quantity;
        if (m.side == 0 ? m.price >= ask : m.price <= bid) quantity = match(m.side, m.price, quantity);
        if (quantity == 0 || free_count == 0) return NONE;
        const int slot = free_slots[--free_count];
        Level &level = levels[m.price];
        orders[slot] = {m.price, quantity, NONE, level.tail, m.side, m.owner, m.id, 0};
        (level.tail == NONE ? level.head : orders[level.tail].next) = slot;
        level.tail = slot, level.quantity += quantity, level.count++, live++;
        if (m.side == 0) bid = std::max(bid, m.price);
        else ask = std::min(ask, m.price);
        return slot;
    }
};

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const size_t n = std::atol(argv[2]);
    std::vector<Message> messages(n);
    std::FILE *file = std::fopen(argv[1], "rb");
    if (!file || std::fread(messages.data(), sizeof(Message), n, file) != n) return 1;
    std::vector<int32_t> slots(n);
    auto book = std::make_unique<Ladder>();
    double best = 1e9;
    for (int repeat = std::atoi(argv[3]); repeat > 0; repeat--) {
        book->clear();
        std::fill(slots.begin(), slots.end(), NONE);
        const auto started = std::clock();
        for (const Message &m : messages) {
            if (m.kind == LIMIT) slots[m.id] = book->limit(m);
            else if (m.kind == MARKET) book->match(m.side, m.side == 0 ? PRICES : 0, m.quantity);
            else if (const int slot = slots[m.id]; slot != NONE && book->orders[slot].id == m.id && book->orders[slot].quantity)
                book->remove(slot);
        }
        best = std::min(best, double(std::clock() - started) / CLOCKS_PER_SEC);
    }
    std::printf("%.9f %lld %lld %d\n", best, (long long)book->trades, (long long)book->volume, book->live);
}
