"""Clients that send what no library of Python's does: Java's, and curl with --http2.

Both wish to upgrade to HTTP/2 with every request in plain text, whatever its body.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

_JAVA = """
import java.net.URI;
import java.net.http.*;

public class Ask {
    public static void main(String[] words) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int at = 1; at < words.length; at++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(words[0]))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(words[at])).build();
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.version() + " " + answer.statusCode() + " " + answer.body());
        }
    }
}
"""
_LONGEST_S = 60.0


async def java(folder: Path, url: str, *bodies: str) -> list[str]:
    """`HTTP_1_1 STATUS BODY` for each POST of these bodies, one after the other."""
    source = folder / "Ask.java"
    source.write_text(_JAVA)
    return await _lines("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", source, url, *bodies)


async def curl_http2(url: str, *bodies: str) -> list[str]:
    """`VERSION STATUS BODY` for each POST of these bodies, on one connection."""
    words: list[str] = []
    for body in bodies:
        words += ["--next", "--http2", "-s", "--data-binary", body, url]
        words += ["-w", "\n%{http_version} %{http_code}\n"]
    lines = await _lines("curl", *words[1:])
    return [f"{said} {body}" for body, said in zip(lines[::2], lines[1::2], strict=True)]


async def _lines(*command: str | Path) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), _LONGEST_S)
    assert process.returncode == 0, err.decode()
    return out.decode().splitlines()
