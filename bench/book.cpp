// Reference implementation: a book by price in std::map, its orders in std::unordered_map.
#include <cstdint>
#include <map>
#include <unordered_map>

namespace {
struct Order { int64_t price, size; uint8_t side; };
struct Level { int64_t size = 0, orders = 0; };
}

extern "C" int64_t replay(const int8_t *kind, const int8_t *side, const int64_t *id,
                          const int64_t *price, const int64_t *size, int64_t count)
{
    std::map<int64_t, Level> sides[2];
    std::unordered_map<int64_t, Order> orders;
    int64_t best = 0;
    auto remove = [&](const Order &order) {
        auto &levels = sides[order.side];
        auto level = levels.find(order.side ? order.price : -order.price);
        level->second.size -= order.size;
        if (--level->second.orders == 0)
            levels.erase(level);
    };
    auto add = [&](int64_t number, const Order &order) {
        Level &level = sides[order.side][order.side ? order.price : -order.price];
        level.size += order.size;
        level.orders++;
        orders[number] = order;
    };
    for (int64_t i = 0; i < count; i++) {
        if (kind[i] == 0) {
            add(id[i], {price[i], size[i], (uint8_t)side[i]});
        } else {
            auto found = orders.find(id[i]);
            if (found == orders.end())
                return -1;
            remove(found->second);
            if (kind[i] == 2)
                orders.erase(found);
            else
                add(id[i], {price[i], size[i], (uint8_t)side[i]});
        }
        if (!sides[0].empty() && !sides[1].empty())
            best += sides[0].begin()->first + sides[1].begin()->first;
    }
    return best;
}
