/* Reference implementation: order messages to columns with validity bitmaps and range checks, by hand. */
#include <stdint.h>
#include <string.h>

#define LOAD(type, offset) ({ type v; memcpy(&v, p + (offset), sizeof v); v; })
#define MAX_MANTISSA 999999999999999999LL

int order_columns(const uint8_t *buffer, const int64_t *positions, int64_t count,
                  const int16_t *names, int64_t *security, int16_t *indicator, int16_t *action,
                  int16_t *type, int64_t *price, int64_t *size, int64_t *firm, int64_t *inserted,
                  int64_t *order, int64_t *sequence, int64_t *time, int64_t *previous,
                  uint8_t *bits)
{
    int64_t stride = count / 8 + 1;
    int bad = 0;
    for (int64_t i = 0; i < count; i += 8) {
        uint8_t b[8] = {0};
        int64_t left = count - i < 8 ? count - i : 8;
        for (int64_t j = 0; j < left; j++) {
            const uint8_t *p = buffer + positions[i + j];
            int64_t v = LOAD(int64_t, 0);
            security[i + j] = v;
            bad |= v < 0;
            indicator[i + j] = p[8];
            int16_t n = names[p[9]];
            action[i + j] = n;
            b[0] |= (n >= 0) << j;
            n = names[256 + p[10]];
            type[i + j] = n;
            b[1] |= (n >= 0) << j;
            v = LOAD(int64_t, 12);
            price[i + j] = v;
            b[2] |= (v != INT64_MIN) << j;
            bad |= v != INT64_MIN && (v > MAX_MANTISSA || v < -MAX_MANTISSA);
            size[i + j] = LOAD(int64_t, 20);
            v = LOAD(uint32_t, 32);
            firm[i + j] = v;
            b[3] |= (v != 0) << j;
            v = LOAD(int64_t, 36);
            inserted[i + j] = v;
            b[4] |= (v != 0) << j;
            bad |= v < 0;
            v = LOAD(int64_t, 44);
            order[i + j] = v;
            bad |= v < 0;
            v = LOAD(uint32_t, 52);
            sequence[i + j] = v;
            b[5] |= (v != 0) << j;
            v = LOAD(int64_t, 56);
            time[i + j] = v;
            b[6] |= (v != 0) << j;
            bad |= v < 0;
            v = LOAD(int64_t, 64);
            previous[i + j] = v;
            b[7] |= (v != INT64_MIN) << j;
        }
        for (int k = 0; k < 8; k++)
            bits[k * stride + i / 8] = b[k];
    }
    return bad;
}
