/* A program outside the project: cc example.c $(pkg-config --cflags --libs redco) */
#include <redco.h>

#include <stdio.h>

int main(void)
{
    redco_error err = {0};
    double bytes = 0.0;
    if (redco_unit_parse("80 GiB", REDCO_UNIT_BYTES, "example", &bytes, &err) != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.place, err.text);
        return 1;
    }
    (void)printf("%.0f bytes\n", bytes);
    return 0;
}
