"""Web: a small HTTP server of a test, whose function answers each request."""

import http.server
import threading


class LocalServer:
    """Serves on a free port of 127.0.0.1, a thread a connection, as long as `with` lasts."""

    def __init__(self, handler, block_on_close=True):
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = block_on_close
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Web(LocalServer):
    """answer(method, path, headers, body) gives (status, text) or (status, text, headers); it runs on the server's threads.
    Used with `with`; all requests are kept in `seen` as (method, path, body)."""

    def __init__(self, answer):
        self.seen = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                outer.seen.append((self.command, self.path, body))
                status, text, *headers = answer(self.command, self.path, self.headers, body)
                self.send_response_only(status)
                for name, value in (headers[0] if headers else {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text.encode())

            do_GET = do_HEAD = do_PUT = do_POST = handle_any  # noqa: N815

            def log_message(self, *_):
                pass

        super().__init__(Handler)
