/* Answers every CoAP request with 2.05 and a short payload, doing nothing else: what the load
 * generator could reach. Prints its port, and ends when its stdin does. */

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(void) {
    struct sockaddr_in own = {.sin_family = AF_INET}, peer;
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) || getsockname(fd, (struct sockaddr *)&own, &len))
        return 70;
    printf("%u\n", ntohs(own.sin_port));
    fflush(stdout);
    struct pollfd wait[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    for (;;) {
        poll(wait, 2, -1);
        if (wait[1].revents) return 0;
        for (int i = 0; i < 64; i++) {
            uint8_t bytes[2048];
            socklen_t peer_len = sizeof peer;
            ssize_t n = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&peer, &peer_len);
            if (n < 0) break;
            if (n < 8 || bytes[1] == 0) continue;
            bytes[0] = (uint8_t)((bytes[0] & 0x4F) | 0x20);
            bytes[1] = 69;
            memcpy(bytes + 8, "\xff" "21.5", 5);
            sendto(fd, bytes, 13, 0, (struct sockaddr *)&peer, peer_len);
        }
    }
}
